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
  const choices = acts.choices();
  switch (key) {
    case '[':
      acts.stepLayer(-1);
      break;
    case ']':
      acts.stepLayer(1);
      break;
    case 'h':
      acts.stepHead(1);
      break;
    case 'H':
      acts.stepHead(-1);
      break;
    case ',':
      acts.stepToken(-1);
      break;
    case '.':
      acts.stepToken(1);
      break;
    case 'a':
      acts.change({ heads: [], mean: false });
      break;
    case 'A':
      acts.change({ mean: !choices.mean });
      break;
    case 's':
      acts.change({ scale: SCALES[(SCALES.indexOf(choices.scale) + 1) % SCALES.length] });
      break;
    case 'w':
      acts.change({ words: !choices.words });
      break;
    case 't':
    case 'T':
      acts.change({ table: !choices.table });
      break;
    case 'd':
      acts.mode();
      break;
    case '?':
      acts.help();
      break;
    case 'Escape':
      acts.change({ queries: [], key: null });
      break;
    case '/': {
      const search = place.root.querySelector<HTMLInputElement>('.search');
      if (!search) return false;
      search.focus();
      break;
    }
    default: {
      const view = acts.views.find((each) => each.key === key.toLowerCase());
      if (!view) return false;
      acts.change({ view: view.id });
    }
  }
  return true;
}
