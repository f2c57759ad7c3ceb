// Numbers of the flow view: attention through all layers up to one, and that of this layer alone.

import { asking } from '../asking';
import type { Opened } from '../capture';
import type { Choices } from '../choices';
import type { LayerInfo, Side } from '../format';
import {
  filter, items, merge, places, sinksOf, withoutSinks, type Item,
} from '../prepare';

export type FlowKind = 'rollout' | 'gradient';

export interface Flowing {
  layer: number; // index in side.layers
  info: LayerInfo;
  queries: Item[];
  keys: Item[];
  matrix: Float32Array; // (queries, keys)
}

export interface Asking {
  rows: number[]; // places among the queries
  chosen: boolean; // by the person
  said: string; // "the last token", "the mean of all tokens"
}

// Which map belongs to a layer: its own, or that of the last layer before it; -1: none.
export function flowPlace(side: Side, kind: FlowKind, layer: number): number {
  const maps = side.flow[kind];
  if (!maps) return -1;
  let [best, first] = [-1, -1];
  side.flow.layers.forEach((each, i) => {
    if (i >= maps.length) return;
    if (each <= layer && (best < 0 || each > side.flow.layers[best])) best = i;
    if (first < 0 || each < side.flow.layers[first]) first = i;
  });
  return best < 0 ? first : best;
}

const kept = new WeakMap<Float32Array, { key: string; matrix: Float32Array }>();

export function flowingOf(opened: Opened, choices: Choices): Flowing {
  const side = opened.header.sides[choices.side];
  const index = flowPlace(side, choices.flow, choices.layer);
  const layer = side.flow.layers[index];
  const info = side.layers[layer];
  const [asked, answered] = [asking(side, info), side.sequences[info.keys]];
  const [queries, keys] = [items(asked, choices.words), items(answered, choices.words)];
  const raw = opened.values((side.flow[choices.flow] ?? [])[index]);
  const { words, first, separators, threshold, top } = choices;
  const key = [words, first, separators, threshold, top].join(' ');
  const known = kept.get(raw);
  if (known?.key === key) return { layer, info, queries, keys, matrix: known.matrix };
  let matrix = withoutSinks(raw, answered.tokens.length, sinksOf(answered, choices));
  if (choices.words) matrix = merge(matrix, answered.tokens.length, queries, keys);
  matrix = filter(matrix, keys.length, choices.threshold, choices.top);
  kept.set(raw, { key, matrix });
  return { layer, info, queries, keys, matrix };
}

// Without a choice: the last token where only it sees everything, else the class token, else all.
export function askingOf(side: Side, info: LayerInfo, queries: Item[], choices: Choices): Asking {
  const rows = places(queries, choices.queries);
  if (rows.length > 0) {
    return { rows, chosen: true, said: `${rows.length} tokens together (summed)` };
  }
  const causal = info.stack === 'decoder' || (info.mask !== null && side.masks[info.mask].causal);
  if (causal) return { rows: [queries.length - 1], chosen: false, said: 'the last token' };
  if (queries[0]?.special) return { rows: [0], chosen: false, said: 'the first token' };
  return { rows: queries.map((_, i) => i), chosen: false, said: 'the mean of all tokens' };
}

// What the asking tokens look at: the sum of their rows where they were chosen, else their mean.
export function togetherOf(sum: Float32Array, { rows, chosen }: Asking): Float32Array {
  return chosen || rows.length < 2 ? sum : sum.map((value) => value / rows.length);
}
