// The state of a presentation: the saved views, which of them is presented, and what changes them.

import { useEffect, useRef, useState } from 'preact/hooks';
import type { Choices } from '../choices';
import { addSlide, parsePresentation, parseSlides, SLIDES_META, type Presentation } from '../slides';

interface Options {
  enabled: boolean; // not in a notebook or in the studio
  fragment: string; // of the address, when the page opens
  show: (choices: Choices) => void;
}

export interface PresentationState {
  presentation: Presentation;
  presenting: boolean;
  at: number; // number of the view that is presented
  goTo: (to: number) => void;
  start: (choices: Choices) => void; // with this view alone if none is saved
  stop: () => void;
  add: (choices: Choices) => void;
  setSlides: (slides: Choices[]) => void;
  read: (fragment: string) => void;
}

export function usePresentation({ enabled, fragment, show }: Options): PresentationState {
  const read = (text: string): Presentation =>
    parsePresentation(enabled ? text : '', slidesOfPage(enabled));
  const [presentation, setPresentation] = useState<Presentation>(() => read(fragment));
  const { slides } = presentation;
  const presenting = presentation.at !== null;
  const at = presentation.at ?? 0;
  const stop = (): void => {
    setPresentation((before) => ({ ...before, at: null }));
    if (document.fullscreenElement) void document.exitFullscreen().catch(() => undefined);
  };
  const goTo = (to: number): void => {
    if (to === at && presenting) return;
    setPresentation({ slides, at: to });
    show(slides[to]);
  };
  usePresenterKeys({ active: presenting, go: goTo, at, last: slides.length - 1, exit: stop });
  return {
    presentation, presenting, at, goTo, stop,
    start(choices) {
      const list = slides.length ? slides : [choices];
      setPresentation({ slides: list, at: 0 });
      show(list[0]);
      fullScreen();
    },
    add: (choices) =>
      setPresentation((before) => ({
        ...before, slides: addSlide(before.slides, choices) ?? before.slides,
      })),
    setSlides: (list) => setPresentation({ slides: list, at: null }),
    read: (text) => setPresentation(read(text)),
  };
}

// The views that a page was saved with.
function slidesOfPage(enabled: boolean): Choices[] {
  const meta = enabled && document.querySelector<HTMLMetaElement>(`meta[name=${SLIDES_META}]`);
  return meta ? parseSlides(meta.content) : [];
}

export function fullScreen(): void {
  void document.documentElement.requestFullscreen?.().catch(() => undefined);
}

const FORWARD = ['ArrowRight', 'ArrowDown', 'PageDown', ' ', 'Enter'];
const BACKWARD = ['ArrowLeft', 'ArrowUp', 'PageUp'];

interface PresenterKeys {
  active: boolean;
  go: (to: number) => void;
  at: number;
  last: number;
  exit: () => void;
}

// Arrow keys step through the views wherever the focus is, but not in a slider or a field.
function usePresenterKeys(keys: PresenterKeys): void {
  const { active } = keys;
  const latest = useRef(keys);
  latest.current = keys;
  useEffect(() => {
    if (!active) return undefined;
    const onKey = (event: KeyboardEvent): void => {
      const { at, last, go, exit } = latest.current;
      const [element] = event.composedPath();
      const matches = (names: string): boolean =>
        element instanceof HTMLElement && element.matches(names);
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      if (matches('input, select, textarea') && event.key !== 'Escape') return;
      if (matches('button, summary') && (event.key === ' ' || event.key === 'Enter')) return;
      if (FORWARD.includes(event.key)) go(Math.min(last, at + 1));
      else if (BACKWARD.includes(event.key)) go(Math.max(0, at - 1));
      else if (event.key === 'Home') go(0);
      else if (event.key === 'End') go(last);
      else if (event.key === 'Escape') exit();
      else return;
      event.preventDefault();
      event.stopPropagation();
    };
    let wasFull = document.fullscreenElement !== null;
    const onChange = (): void => {
      if (wasFull && !document.fullscreenElement) latest.current.exit(); // Escape leaves it
      wasFull = document.fullscreenElement !== null;
    };
    document.addEventListener('keydown', onKey, true);
    document.addEventListener('fullscreenchange', onChange);
    return () => {
      document.removeEventListener('keydown', onKey, true);
      document.removeEventListener('fullscreenchange', onChange);
    };
  }, [active]);
}
