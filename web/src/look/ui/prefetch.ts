// Prefetching: while the page is idle, loads and draws what the next keystroke may show. By then its
// arrays are decoded, its heads ranked and its code compiled, so that the keystroke is fast.

import { useEffect } from 'preact/hooks';
import type { Choices } from '../choices';
import { cachedDrawing } from '../drawing-cache';
import type { Frame, View } from '../view';
import { VIEWS } from '../views/index';

const IDLE_DELAY_MS = 250; // milliseconds without a change
const MAX_PREFETCH_BYTES = 64 * 2 ** 20; // bytes that one prefetched view may load
const MAX_DRAWN_CELLS = 600_000; // largest head to draw in advance; a larger one would delay a keystroke

type Cancel = () => void;

// Runs one step when the browser is idle. Returns a function that cancels it.
function runWhenIdle(callback: () => void): Cancel {
  if (typeof window.requestIdleCallback === 'function') {
    const handle = window.requestIdleCallback(callback);
    return () => window.cancelIdleCallback(handle);
  }
  const handle = window.setTimeout(callback, 50);
  return () => window.clearTimeout(handle);
}

// The views and choices to prefetch: neighboring layers in this view, then the other views.
export function likelyNext(
  frame: Frame,
  settleChoices: (choices: Choices) => Choices,
): [View, Choices][] {
  const { capture, choices } = frame;
  const layers = capture.header.sides[choices.side].layers.length;
  const neighborChoices = [1, -1].map((by) => ({ ...choices, layer: choices.layer + by }));
  const neighbors = neighborChoices.filter(({ layer }) => layer >= 0 && layer < layers);
  const others = VIEWS.filter((view) => view.id !== choices.view);
  const candidates = [...neighbors, ...others.map((view) => ({ ...choices, view: view.id }))].map(
    settleChoices,
  );
  return candidates.flatMap((next): [View, Choices][] => {
    const view = VIEWS.find(({ id }) => id === next.view);
    return view && !view.missingReason(capture, next) ? [[view, next]] : [];
  });
}

// Whether the heads are small enough to be drawn in advance.
export function isSmallEnough({ capture, choices }: Frame): boolean {
  return capture.header.sides.every((side) => {
    const layer = side.layers[choices.layer];
    return !layer || layer.weights.shape[1] * layer.weights.shape[2] <= MAX_DRAWN_CELLS;
  });
}

function drawSilently(view: View, frame: Frame): void {
  try {
    if (isSmallEnough(frame)) cachedDrawing(view, frame);
  } catch {
    // the error appears when the user opens this view
  }
}

export function usePrefetch(
  frame: Frame | null,
  settleChoices: (choices: Choices) => Choices,
): void {
  useEffect(() => {
    if (!frame || frame.width === 0) return undefined;
    let cancel: Cancel = () => undefined;
    let active = true;
    const queue = likelyNext(frame, settleChoices);
    const step = (): void => {
      const item = queue.shift();
      if (!item || !active) return;
      const [view, choices] = item;
      const needs = view.needs(frame.capture, choices);
      if (frame.capture.bytesToLoad(needs) > MAX_PREFETCH_BYTES) {
        cancel = runWhenIdle(step);
        return;
      }
      frame.capture
        .load(needs)
        .then(() => {
          if (!active) return;
          cancel = runWhenIdle(() => {
            drawSilently(view, { ...frame, choices });
            cancel = runWhenIdle(step);
          });
        })
        .catch(() => undefined);
    };
    const timer = window.setTimeout(() => {
      cancel = runWhenIdle(step);
    }, IDLE_DELAY_MS);
    return () => {
      active = false;
      window.clearTimeout(timer);
      cancel();
    };
  }, [frame?.capture, frame?.choices, frame?.width]);
}
