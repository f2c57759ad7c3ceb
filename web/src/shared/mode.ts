// Light or dark: as the system, the notebook or the studio has it, until someone chooses; a page of
// its own remembers what was chosen.

import { useContext, useEffect, useLayoutEffect, useState } from 'preact/hooks';
import { Home } from './home';
import type { Mode } from './theme';

interface Place {
  root: HTMLElement;
  notebook: boolean; // in a cell of one
}

export type Chosen = Mode | 'auto';

const ORDER: Chosen[] = ['auto', 'light', 'dark'];
const KEPT = 'attnlab-colors';

export function useMode(place: Place): [{ now: Mode; chosen: Chosen }, () => void] {
  const { alone } = useContext(Home);
  const around = place.notebook ? document.body : alone ? null : document.documentElement;
  const given = (): Mode => (alone ? systemMode(place) : modeOf(document.documentElement));
  const kept = alone && !place.notebook;
  const [chosen, setChosen] = useState<Chosen>(() => (kept ? remembered() : 'auto'));
  const [system, setSystem] = useState<Mode>(given);
  useEffect(() => {
    const read = (): void => setSystem(given());
    const query = window.matchMedia('(prefers-color-scheme: dark)');
    query.addEventListener('change', read);
    const observer = new MutationObserver(read);
    if (around) observer.observe(around, { attributes: true });
    read();
    return () => {
      query.removeEventListener('change', read);
      observer.disconnect();
    };
  }, []);
  const now = chosen === 'auto' ? system : chosen;
  useLayoutEffect(() => {
    place.root.dataset.theme = now;
    if (!around) document.documentElement.dataset.attnlabTheme = now;
  }, [now]);
  const next = (): void => {
    if (!alone) return;
    const one = ORDER[(ORDER.indexOf(chosen) + 1) % ORDER.length];
    setChosen(one);
    if (kept) remember(one);
  };
  return [{ now, chosen }, next];
}

function remembered(): Chosen {
  try {
    const found = window.localStorage.getItem(KEPT);
    return ORDER.find((each) => each === found) ?? 'auto';
  } catch {
    return 'auto'; // a browser that keeps nothing
  }
}

function remember(chosen: Chosen): void {
  try {
    window.localStorage.setItem(KEPT, chosen);
  } catch {
    // it lasts as long as the page
  }
}

// What the studio around it says.
function modeOf(element: HTMLElement): Mode {
  return element.dataset.attnlabTheme === 'dark' ? 'dark' : 'light';
}

// JupyterLab and VS Code say on the body what they look like.
function systemMode({ notebook }: Place): Mode {
  const { body } = document;
  if (notebook && body.dataset.jpThemeLight)
    return body.dataset.jpThemeLight === 'false' ? 'dark' : 'light';
  if (notebook && /\bvscode-(dark|high-contrast)\b/.test(body.className)) return 'dark';
  if (notebook && /\bvscode-light\b/.test(body.className)) return 'light';
  return window.matchMedia('(prefers-color-scheme: dark)').matches ? 'dark' : 'light';
}
