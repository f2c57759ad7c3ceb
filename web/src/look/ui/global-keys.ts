// Keyboard shortcuts that work anywhere on the page, except while the user types.

import type { Choices } from '../choices';
import type { Mode } from '../../shared/theme';
import type { View } from '../view';
import type { Host } from './app';

interface KeyActions {
  choices: () => Choices;
  views: View[];
  change: (changes: Partial<Choices>) => void;
  help: () => void;
  mode: () => Mode | void;
  present: () => void;
  addView: () => void;
  stepLayer: (by: number) => void;
  stepHead: (by: number) => void;
  stepToken: (by: number) => void;
  stepStage: (by: number) => void; // of the walkthrough
}

const SCALES: Choices['scale'][] = ['linear', 'sqrt', 'log'];

export function listenForKeys(host: Host, actions: KeyActions): () => void {
  const target: EventTarget = host.notebook ? host.root : document;
  const onKeyDown = (rawEvent: Event): void => {
    const event = rawEvent as KeyboardEvent;
    if (
      event.defaultPrevented ||
      event.ctrlKey ||
      event.metaKey ||
      event.altKey ||
      event.isComposing
    )
      return;
    if (isTyping(event) || host.root.querySelector('dialog[open]')) return;
    if (!handleKey(event.key, host, actions)) return;
    event.preventDefault();
    if (host.notebook) event.stopPropagation(); // the notebook has its own shortcuts
  };
  target.addEventListener('keydown', onKeyDown);
  return () => target.removeEventListener('keydown', onKeyDown);
}

function isTyping(event: KeyboardEvent): boolean {
  const [element] = event.composedPath();
  if (!(element instanceof HTMLElement)) return false;
  if (element.isContentEditable || element.matches('select, textarea')) return true;
  return element.matches('input') && !element.matches('[type=checkbox], [type=button]');
}

// Shows the options first if they are hidden: the next key must already go into the field.
function focusSearch(search: HTMLInputElement): void {
  const options = search.closest<HTMLElement>('.options');
  if (options?.hidden) {
    options.hidden = false;
    options.parentElement?.querySelector<HTMLElement>('.more')?.click();
  }
  search.focus();
}

function handleKey(key: string, host: Host, actions: KeyActions): boolean {
  const { choices, change, stepLayer, stepHead, stepToken, stepStage } = actions;
  const { mean, scale, words, table, view: shown } = choices();
  const walking = shown === 'walkthrough' && !table;
  const search = host.root.querySelector<HTMLInputElement>('.search');
  const handlers: Record<string, (() => void) | undefined> = {
    '[': () => stepLayer(-1),
    ']': () => stepLayer(1),
    h: () => stepHead(1),
    H: () => stepHead(-1),
    ArrowLeft: walking ? () => stepStage(-1) : undefined,
    ArrowRight: walking ? () => stepStage(1) : undefined,
    ',': () => stepToken(-1),
    '.': () => stepToken(1),
    a: () => change({ heads: [], mean: false }),
    A: () => change({ mean: !mean }),
    s: () => change({ scale: SCALES[(SCALES.indexOf(scale) + 1) % SCALES.length] }),
    w: () => change({ words: !words }),
    t: () => change({ table: !table }),
    T: () => change({ table: !table }),
    d: actions.mode,
    p: actions.present,
    v: actions.addView,
    '?': actions.help,
    Escape: () => change({ queries: [], key: null }),
    '/': search ? () => focusSearch(search) : undefined,
  };
  const view = actions.views.find((each) => each.key === key.toLowerCase());
  const show = view && (() => change({ view: view.id }));
  const handler = Object.hasOwn(handlers, key) ? handlers[key] : show;
  handler?.();
  return handler !== undefined;
}
