// The page: it carries its capture, or asks for a file.

import './look.css';
import { openPage } from './sources';
import { ask, show } from './ui/show';

function start(): void {
  let root = document.getElementById('attnlab');
  if (!root)
    document.body.append((root = Object.assign(document.createElement('div'), { id: 'attnlab' })));
  root.textContent = '';
  root.classList.add('attnlab');
  document.body.classList.add('attnlab-page');
  const place = { root, notebook: false, id: 'look' };
  if (document.getElementById('attnlab-header') || document.querySelector('script[data-block]')) {
    show(place, () => openPage(document));
  } else ask(place);
}

if (document.readyState === 'loading') document.addEventListener('DOMContentLoaded', start);
else start();
