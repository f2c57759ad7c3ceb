// The same in a notebook, as anywidget wants it. Nothing outside the widget's element is touched.

import { render as renderTree } from 'preact';
import './look.css';
import { openFile, openParts } from './sources';
import { show } from './ui/show';

interface Model {
  get: (name: string) => unknown;
}

let count = 0;

function render({ model, el }: { model: Model; el: HTMLElement }): () => void {
  el.classList.add('attnlab', 'attnlab-widget');
  el.dataset.lmSuppressShortcuts = 'true'; // JupyterLab leaves the keys to us
  show({ root: el, notebook: true, id: `look${(count += 1)}` }, () => {
    const file = model.get('capture'); // a whole file, or header and blocks
    if (file instanceof DataView) return openFile(file);
    return openParts(model.get('header'), model.get('blocks'));
  });
  return () => renderTree(null, el);
}

export default { render };
