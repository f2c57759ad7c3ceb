// Hooks: load what a view needs, and measure the space for the drawing.

import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import type { Capture } from '../capture';
import type { Choices } from '../choices';
import type { View } from '../view';
import type { Host } from './app';

const NOTEBOOK_HEIGHT = 520; // height of the drawing in a notebook, in pixels
const MIN_HEIGHT = 300;

// Loads what the view needs. Until it is there, returns the view and choices shown before.
export function useLoaded(capture: Capture, view: View | null, choices: Choices) {
  const [, rerender] = useState(0);
  const [failure, setFailure] = useState('');
  const lastLoaded = useRef<{ view: View | null; choices: Choices }>({ view: null, choices });
  const needs = view ? view.needs(capture, choices) : [];
  const ready = view !== null && capture.isLoaded(needs);
  if (ready) lastLoaded.current = { view, choices };
  useEffect(() => {
    if (!view || ready) return undefined;
    let active = true;
    setFailure('');
    capture
      .load(needs)
      .then(() => active && rerender((n) => n + 1))
      .catch(
        (error: unknown) =>
          active && setFailure(error instanceof Error ? error.message : String(error)),
      );
    return () => {
      active = false;
    };
  }, [capture, view, choices, ready]);
  return { ...lastLoaded.current, failure: ready ? '' : failure };
}

// The size of the drawing: the width of its element, and the rest of the window's height.
export function useSize(host: Host, presenting = false) {
  const box = useRef<HTMLDivElement>(null);
  const top = useRef<HTMLDivElement>(null);
  const [size, setSize] = useState({ width: 0, height: MIN_HEIGHT });
  useLayoutEffect(() => {
    const measure = (): void => {
      const width = Math.floor(box.current?.clientWidth ?? 0);
      const above = (top.current?.getBoundingClientRect().top ?? 0) + window.scrollY;
      const remaining = window.innerHeight - above - (presenting ? 48 : 60);
      const height = host.notebook
        ? NOTEBOOK_HEIGHT
        : Math.floor(Math.max(MIN_HEIGHT, window.innerHeight * 0.6, remaining));
      setSize((old) =>
        old.width === width && Math.abs(old.height - height) < 2 ? old : { width, height },
      );
    };
    measure();
    const observer = new ResizeObserver(measure);
    if (box.current) observer.observe(box.current);
    window.addEventListener('resize', measure);
    return () => {
      observer.disconnect();
      window.removeEventListener('resize', measure);
    };
  }, [presenting]);
  return [size, box, top] as const;
}
