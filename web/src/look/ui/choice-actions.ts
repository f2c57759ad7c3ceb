// What keys and buttons change: the next layer, head, token or step, and sets of heads and queries.

import type { Capture } from '../capture';
import { MAX_STAGES, type Choices } from '../choices';
import type { Target } from '../view';
import { findView } from '../views/index';

// The flow view opens on the last layer, where all layers have added to it. Another view then shows
// the layer from before again.
export function layerOfFlow(
  capture: Capture,
  previous: Choices,
  { view, layer }: Partial<Choices>,
  before: { current: Partial<Choices> | null },
): Partial<Choices> {
  if (view === undefined || view === previous.view || layer !== undefined) return {};
  if (view === 'flow') {
    const last = Math.max(...capture.header.sides[previous.side].flow.layers, -1);
    before.current = { layer: previous.layer, heads: previous.heads };
    return last < 0 ? {} : { layer: last, heads: [] };
  }
  if (previous.view !== 'flow' || !before.current) return {};
  const restored = before.current;
  before.current = null;
  const last = Math.max(...capture.header.sides[previous.side].flow.layers, -1);
  return previous.layer === last ? restored : {};
}

export function toggleTarget(choices: Choices, target: Target): Partial<Choices> {
  const { set, index, layer } = target.toggles ?? { set: 'queries' as const, index: -1 };
  const otherLayer = layer !== undefined && layer !== choices.layer;
  const old = otherLayer ? [] : choices[set];
  const indices = old.includes(index)
    ? old.filter((each) => each !== index)
    : [...old, index].sort((a, b) => a - b);
  return { [set]: indices, ...(otherLayer ? { layer } : {}) };
}

export function makeActions(capture: Capture, change: (changes: Partial<Choices>) => void) {
  const wrapIndex = (at: number, by: number, all: number): number => (at + by + all) % all;
  return {
    stepLayer(choices: Choices, step: number): void {
      const view = findView(choices.view);
      const layers =
        view.layers?.(capture, choices) ??
        capture.header.sides[choices.side].layers.map((_, i) => i);
      if (layers.length)
        change({
          layer: layers[wrapIndex(Math.max(0, layers.indexOf(choices.layer)), step, layers.length)],
        });
    },
    stepHead(choices: Choices, step: number): void {
      const heads = capture.header.sides[choices.side].layers[choices.layer]?.heads.length ?? 0;
      if (!heads) return;
      const [first] = choices.heads;
      change({
        heads: [first === undefined ? (step > 0 ? 0 : heads - 1) : wrapIndex(first, step, heads)],
        mean: false,
      });
    },
    stepStage(choices: Choices, step: number): void {
      change({ stage: Math.max(0, Math.min(MAX_STAGES - 1, choices.stage + step)) });
    },
    stepToken(choices: Choices, step: number): void {
      const [first, last, current] = findView(choices.view).steps?.(capture, choices) ?? [0, 0];
      if (last > first)
        change({
          step: Math.max(first, Math.min(last, (current ?? choices.step ?? first) + step)),
        });
    },
  };
}
