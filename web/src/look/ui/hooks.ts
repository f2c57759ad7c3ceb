// What is loaded, and how much room there is.

import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import type { Opened } from '../capture';
import type { Choices } from '../choices';
import type { View } from '../view';
import type { Place } from './app';

const NOTEBOOK = 520; // pixels of the drawing
const LEAST = 300;

// What is decoded; until then what was shown before stays.
export function useLoaded(opened: Opened, view: View | null, choices: Choices) {
  const [, again] = useState(0);
  const [failure, setFailure] = useState('');
  const last = useRef<{ view: View | null; choices: Choices }>({ view: null, choices });
  const needs = view ? view.needs(opened, choices) : [];
  const ready = view !== null && opened.ready(needs);
  if (ready) last.current = { view, choices };
  useEffect(() => {
    if (!view || ready) return undefined;
    let wanted = true;
    setFailure('');
    opened
      .load(needs)
      .then(() => wanted && again((n) => n + 1))
      .catch(
        (error: unknown) =>
          wanted && setFailure(error instanceof Error ? error.message : String(error)),
      );
    return () => {
      wanted = false;
    };
  }, [opened, view, choices, ready]);
  return { ...last.current, failure: ready ? '' : failure };
}

// Room for the drawing: the width there is, and what is left of the window's height.
export function useSize(place: Place) {
  const box = useRef<HTMLDivElement>(null);
  const top = useRef<HTMLDivElement>(null);
  const [size, setSize] = useState({ width: 0, height: LEAST });
  useLayoutEffect(() => {
    const read = (): void => {
      const width = Math.floor(box.current?.clientWidth ?? 0);
      const above = (top.current?.getBoundingClientRect().top ?? 0) + window.scrollY;
      const left = window.innerHeight - above - 60;
      const height = place.notebook
        ? NOTEBOOK
        : Math.floor(Math.max(LEAST, window.innerHeight * 0.6, left));
      setSize((old) =>
        old.width === width && Math.abs(old.height - height) < 2 ? old : { width, height },
      );
    };
    read();
    const observer = new ResizeObserver(read);
    if (box.current) observer.observe(box.current);
    window.addEventListener('resize', read);
    return () => {
      observer.disconnect();
      window.removeEventListener('resize', read);
    };
  }, []);
  return [size, box, top] as const;
}
