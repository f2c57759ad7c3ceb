// The standalone page. It shows the capture that is embedded in it, or asks for a file.

import './look.css';
import { openPage } from './open-capture';
import { mountFilePicker, mountCapture } from './ui/mount';

function start(): void {
  let root = document.getElementById('attnlab');
  if (!root)
    document.body.append((root = Object.assign(document.createElement('div'), { id: 'attnlab' })));
  root.textContent = '';
  root.classList.add('attnlab');
  document.body.classList.add('attnlab-page');
  const host = { root, notebook: false, id: 'look' };
  if (document.getElementById('attnlab-header') || document.querySelector('script[data-block]')) {
    mountCapture(host, () => openPage(document));
  } else mountFilePicker(host);
}

if (document.readyState === 'loading') document.addEventListener('DOMContentLoaded', start);
else start();
