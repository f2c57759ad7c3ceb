// All keys, and what the views are.

import { useEffect, useRef } from 'preact/hooks';
import type { View } from '../view';

const KEYS: [string, string][] = [
  ['[ ]', 'layer before, next layer'],
  ['h H', 'next head, head before'],
  ['a A', 'all heads, their mean'],
  [', .', 'token before, next token of a generated text'],
  ['s', 'scale: linear, square root, logarithmic'],
  ['w', 'words or sub-words'],
  ['/', 'search tokens; Enter chooses what was found'],
  ['t', 'table or drawing'],
  ['d', 'light or dark'],
  ['Tab', 'into the drawing; then:'],
  ['← ↑ → ↓', 'from place to place; Page up and down: ten at once'],
  ['Enter', 'choose'],
  ['Space', 'add or take away (with the pointer: Shift and click)'],
  ['+ − 0', 'zoom in, out, everything; Shift and arrows move'],
  ['Escape', 'leave, then clear what was chosen'],
];

export function Help({ id, views, close }: { id: string; views: View[]; close: () => void }) {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    dialog.current?.showModal();
  }, []);
  return (
    <dialog
      class="help"
      ref={dialog}
      aria-labeledby={`${id}-help`}
      onClose={close}
      onClick={(event) => {
        if (event.target === dialog.current) dialog.current?.close();
      }}
    >
      <div class="inner">
        <div class="top">
          <h2 id={`${id}-help`}>Views and keys</h2>
          <button type="button" onClick={() => dialog.current?.close()}>
            Close
          </button>
        </div>
        <dl>
          {views.map((view) => (
            <div key={view.id}>
              <dt>
                <kbd>{view.key}</kbd>
              </dt>
              <dd>
                <b>{view.title}</b> {view.about}
              </dd>
            </div>
          ))}
        </dl>
        <h3>Keys</h3>
        <dl>
          {KEYS.map(([key, what]) => (
            <div key={key}>
              <dt>
                {key.includes(' ') && key.length < 12 ? (
                  key.split(' ').map((each) => <kbd key={each}>{each}</kbd>)
                ) : (
                  <kbd>{key}</kbd>
                )}
              </dt>
              <dd>{what}</dd>
            </div>
          ))}
        </dl>
        <p class="dim">
          The address holds what is chosen: a link shows the same again. Nothing leaves this page.
        </p>
      </div>
    </dialog>
  );
}
