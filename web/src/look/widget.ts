// The notebook version, in the form that anywidget expects. It stays within the widget's element.

import { render as renderTree } from 'preact';
import './look.css';
import { openFile, openParts } from './open-capture';
import { openSwitchChannel, type MessageChannel } from './switch-heads';
import { mountCapture } from './ui/mount';

interface Model extends MessageChannel {
  get: (name: string) => unknown;
}

let widgetCount = 0;

function render({ model, el }: { model: Model; el: HTMLElement }): () => void {
  el.classList.add('attnlab', 'attnlab-widget');
  el.dataset.lmSuppressShortcuts = 'true'; // JupyterLab ignores keys that are pressed here
  const channel = openSwitchChannel(model);
  mountCapture({ root: el, notebook: true, id: `look${(widgetCount += 1)}` }, () => {
    const file = model.get('capture'); // a whole file; without it, a header and blocks
    if (file instanceof DataView) return openFile(file);
    const capture = openParts(model.get('header'), model.get('blocks'));
    if (model.get('live') === true) capture.switchHeads = channel.ask;
    return capture;
  });
  return () => {
    channel.close();
    renderTree(null, el);
  };
}

export default { render };
