// Light or dark colors: those of the system, notebook or studio, until a reader chooses. A standalone
// page stores the choice.

import { useContext, useEffect, useLayoutEffect, useState } from 'preact/hooks';
import { PageContext } from './page-address';
import type { Mode } from './theme';

interface HostElement {
  root: HTMLElement;
  notebook: boolean; // in a cell of a notebook
}

export type ModeChoice = Mode | 'auto';

const ORDER: ModeChoice[] = ['auto', 'light', 'dark'];
const STORAGE_KEY = 'attnlab-colors';

export function useColorMode(host: HostElement): [{ now: Mode; chosen: ModeChoice }, () => void] {
  const { alone } = useContext(PageContext);
  const parent = host.notebook ? document.body : alone ? null : document.documentElement;
  const inheritedMode = (): Mode => (alone ? systemMode(host) : modeOf(document.documentElement));
  const stores = alone && !host.notebook;
  const [chosen, setChosen] = useState<ModeChoice>(() => (stores ? readStored() : 'auto'));
  const [system, setSystem] = useState<Mode>(inheritedMode);
  useEffect(() => {
    const read = (): void => setSystem(inheritedMode());
    const query = window.matchMedia('(prefers-color-scheme: dark)');
    query.addEventListener('change', read);
    const observer = new MutationObserver(read);
    if (parent) observer.observe(parent, { attributes: true });
    read();
    return () => {
      query.removeEventListener('change', read);
      observer.disconnect();
    };
  }, []);
  const now = chosen === 'auto' ? system : chosen;
  useLayoutEffect(() => {
    host.root.dataset.theme = now;
    if (!parent) document.documentElement.dataset.attnlabTheme = now;
  }, [now]);
  const next = (): void => {
    if (!alone) return;
    const nextChoice = ORDER[(ORDER.indexOf(chosen) + 1) % ORDER.length];
    setChosen(nextChoice);
    if (stores) store(nextChoice);
  };
  return [{ now, chosen }, next];
}

function readStored(): ModeChoice {
  try {
    const stored = window.localStorage.getItem(STORAGE_KEY);
    return ORDER.find((mode) => mode === stored) ?? 'auto';
  } catch {
    return 'auto'; // the browser does not store anything
  }
}

function store(chosen: ModeChoice): void {
  try {
    window.localStorage.setItem(STORAGE_KEY, chosen);
  } catch {
    // the choice lasts until the page closes
  }
}

// The mode of the surrounding studio.
function modeOf(element: HTMLElement): Mode {
  return element.dataset.attnlabTheme === 'dark' ? 'dark' : 'light';
}

// JupyterLab and VS Code mark their mode on the body.
function systemMode({ notebook }: HostElement): Mode {
  const { body } = document;
  if (notebook && body.dataset.jpThemeLight)
    return body.dataset.jpThemeLight === 'false' ? 'dark' : 'light';
  if (notebook && /\bvscode-(dark|high-contrast)\b/.test(body.className)) return 'dark';
  if (notebook && /\bvscode-light\b/.test(body.className)) return 'light';
  return window.matchMedia('(prefers-color-scheme: dark)').matches ? 'dark' : 'light';
}
