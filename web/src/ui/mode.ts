// Light or dark: as the system or the notebook has it, until someone chooses.

import { useEffect, useLayoutEffect, useState } from 'preact/hooks';
import type { Mode } from '../theme';
import type { Place } from './app';

type Chosen = Mode | 'auto';

const ORDER: Chosen[] = ['auto', 'light', 'dark'];

export function useMode(place: Place): [{ now: Mode; chosen: Chosen }, () => void] {
  const [chosen, setChosen] = useState<Chosen>('auto');
  const [system, setSystem] = useState<Mode>(() => systemMode(place));
  useEffect(() => {
    const read = (): void => setSystem(systemMode(place));
    const query = window.matchMedia('(prefers-color-scheme: dark)');
    query.addEventListener('change', read);
    const observer = new MutationObserver(read);
    if (place.notebook) observer.observe(document.body, { attributes: true });
    return () => {
      query.removeEventListener('change', read);
      observer.disconnect();
    };
  }, []);
  const now = chosen === 'auto' ? system : chosen;
  useLayoutEffect(() => {
    place.root.dataset.theme = now;
    if (!place.notebook) document.documentElement.dataset.attnlabTheme = now;
  }, [now]);
  return [
    { now, chosen },
    () => setChosen((old) => ORDER[(ORDER.indexOf(old) + 1) % ORDER.length]),
  ];
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
