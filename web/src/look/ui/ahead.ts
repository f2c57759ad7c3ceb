// While nothing happens: opens and draws once, for nobody, what the next key may ask for. Its numbers
// are then decoded, its ranking is made and its code compiled, so that the key itself costs little.

import { useEffect } from 'preact/hooks';
import type { Choices } from '../choices';
import { drawingOf } from '../drawings';
import type { Frame, View } from '../view';
import { VIEWS } from '../views/index';

const REST = 250; // milliseconds without a change
const OPENED = 64 * 2 ** 20; // bytes that may be opened ahead
const CELLS = 600_000; // of a head; to draw larger ones ahead would be felt when a key comes meanwhile

type Stop = () => void;

// One step when there is time for it.
function idle(act: () => void): Stop {
  if (typeof window.requestIdleCallback === 'function') {
    const handle = window.requestIdleCallback(act);
    return () => window.cancelIdleCallback(handle);
  }
  const handle = window.setTimeout(act, 50);
  return () => window.clearTimeout(handle);
}

// The other views as they would be now, and this one's neighboring layers.
export function next(frame: Frame, settle: (choices: Choices) => Choices): [View, Choices][] {
  const { opened, choices } = frame;
  const layers = opened.header.sides[choices.side].layers.length;
  const steps = [1, -1].map((by) => ({ ...choices, layer: choices.layer + by }));
  const near = steps.filter(({ layer }) => layer >= 0 && layer < layers);
  const others = VIEWS.filter((view) => view.id !== choices.view);
  const all = [...near, ...others.map((view) => ({ ...choices, view: view.id }))].map(settle);
  return all.flatMap((each): [View, Choices][] => {
    const view = VIEWS.find(({ id }) => id === each.view);
    return view && !view.missing(opened, each) ? [[view, each]] : [];
  });
}

// Whether a head is small enough to be drawn ahead.
export function light({ opened, choices }: Frame): boolean {
  return opened.header.sides.every((side) => {
    const layer = side.layers[choices.layer];
    return !layer || layer.weights.shape[1] * layer.weights.shape[2] <= CELLS;
  });
}

function draw(view: View, frame: Frame): void {
  try {
    if (light(frame)) drawingOf(view, frame);
  } catch {
    // whoever asks for it in earnest is told
  }
}

export function useAhead(frame: Frame | null, settle: (choices: Choices) => Choices): void {
  useEffect(() => {
    if (!frame || frame.width === 0) return undefined;
    let stop: Stop = () => undefined;
    let wanted = true;
    const work = next(frame, settle);
    const step = (): void => {
      const one = work.shift();
      if (!one || !wanted) return;
      const [view, choices] = one;
      const needs = view.needs(frame.opened, choices);
      if (frame.opened.size(needs) > OPENED) {
        stop = idle(step);
        return;
      }
      frame.opened
        .load(needs)
        .then(() => {
          if (!wanted) return;
          stop = idle(() => {
            draw(view, { ...frame, choices });
            stop = idle(step);
          });
        })
        .catch(() => undefined);
    };
    const rest = window.setTimeout(() => {
      stop = idle(step);
    }, REST);
    return () => {
      wanted = false;
      window.clearTimeout(rest);
      stop();
    };
  }, [frame?.opened, frame?.choices, frame?.width]);
}
