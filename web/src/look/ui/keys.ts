// Keys that work anywhere on the page, but not while someone types.

import type { Choices } from '../choices';
import type { Mode } from '../../shared/theme';
import type { View } from '../view';
import type { Place } from './app';

interface Acts {
  choices: () => Choices;
  views: View[];
  change: (some: Partial<Choices>) => void;
  help: () => void;
  mode: () => Mode | void;
  stepLayer: (by: number) => void;
  stepHead: (by: number) => void;
  stepToken: (by: number) => void;
}

const SCALES: Choices['scale'][] = ['linear', 'sqrt', 'log'];

export function globalKeys(place: Place, acts: Acts): () => void {
  const on: EventTarget = place.notebook ? place.root : document;
  const press = (raw: Event): void => {
    const event = raw as KeyboardEvent;
    if (
      event.defaultPrevented ||
      event.ctrlKey ||
      event.metaKey ||
      event.altKey ||
      event.isComposing
    )
      return;
    if (typing(event) || place.root.querySelector('dialog[open]')) return;
    if (!act(event.key, place, acts)) return;
    event.preventDefault();
    if (place.notebook) event.stopPropagation(); // the notebook has keys of its own
  };
  on.addEventListener('keydown', press);
  return () => on.removeEventListener('keydown', press);
}

function typing(event: KeyboardEvent): boolean {
  const [element] = event.composedPath();
  if (!(element instanceof HTMLElement)) return false;
  if (element.isContentEditable || element.matches('select, textarea')) return true;
  return element.matches('input') && !element.matches('[type=checkbox], [type=button]');
}

function act(key: string, place: Place, acts: Acts): boolean {
  const { choices, change, stepLayer, stepHead, stepToken } = acts;
  const { mean, scale, words, table } = choices();
  const search = place.root.querySelector<HTMLInputElement>('.search');
  const all: Record<string, (() => void) | undefined> = {
    '[': () => stepLayer(-1),
    ']': () => stepLayer(1),
    h: () => stepHead(1),
    H: () => stepHead(-1),
    ',': () => stepToken(-1),
    '.': () => stepToken(1),
    a: () => change({ heads: [], mean: false }),
    A: () => change({ mean: !mean }),
    s: () => change({ scale: SCALES[(SCALES.indexOf(scale) + 1) % SCALES.length] }),
    w: () => change({ words: !words }),
    t: () => change({ table: !table }),
    T: () => change({ table: !table }),
    d: acts.mode,
    '?': acts.help,
    Escape: () => change({ queries: [], key: null }),
    '/': search ? () => search.focus() : undefined,
  };
  const view = acts.views.find((each) => each.key === key.toLowerCase());
  const show = view && (() => change({ view: view.id }));
  const wanted = Object.hasOwn(all, key) ? all[key] : show;
  wanted?.();
  return wanted !== undefined;
}
