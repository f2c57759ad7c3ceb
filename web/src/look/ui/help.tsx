// The help dialog: all views and keys.

import { useEffect, useRef } from 'preact/hooks';
import type { View } from '../view';

const KEYS: [string, string][] = [
  ['[ ]', 'previous layer, next layer'],
  ['h H', 'next head, previous head'],
  ['a A', 'all heads, their mean'],
  [', .', 'previous token, next token of a generated text'],
  ['s', 'scale: linear, square root, logarithmic'],
  ['w', 'words or subwords'],
  ['/', 'search tokens; Enter selects the matches'],
  ['t', 'table or drawing'],
  ['d', 'light or dark colors'],
  ['v p', 'add this view to the presentation, start it'],
  ['← →', 'walkthrough: previous step, next step'],
  ['Tab', 'focus the drawing; then:'],
  ['← ↑ → ↓', 'move; Page Up and Page Down move ten steps'],
  ['Enter', 'select'],
  ['Space', 'add to the selection or remove from it (with the mouse: Shift-click)'],
  ['+ − 0', 'zoom in, zoom out, show everything; Shift and arrow keys pan'],
  ['Escape', 'leave the drawing, then clear the selection'],
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
      aria-labelledby={`${id}-help`}
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
                <b>{view.title}</b> {view.description}
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
          The address of the page holds your selection: copy the link to show the same again. No
          data leaves this page.
        </p>
      </div>
    </dialog>
  );
}
