// Data of the flow view: the attention matrix through all layers up to one, and the query rows.

import { querySequence } from '../query-labels';
import type { Capture } from '../capture';
import type { Choices } from '../choices';
import type { LayerInfo, Side } from '../capture-format';
import {
  applyCutoffs, toItems, mergeWords, itemIndices, sinkModes, withoutSinks, type Item,
} from '../prepare-weights';

export type FlowKind = 'rollout' | 'gradient';

export interface FlowMatrix {
  layer: number; // index in side.layers
  info: LayerInfo;
  queries: Item[];
  keys: Item[];
  matrix: Float32Array; // (queries, keys)
}

export interface QueryRows {
  rows: number[]; // indices among the queries
  chosenByUser: boolean; // by the user
  description: string; // "the last token", "the mean of all tokens"
}

// Index of the map for a layer: its own, or that of the last earlier layer; -1 if there is none.
export function flowMapIndex(side: Side, kind: FlowKind, layer: number): number {
  const maps = side.flow[kind];
  if (!maps) return -1;
  let [nearest, first] = [-1, -1];
  side.flow.layers.forEach((flowLayer, i) => {
    if (i >= maps.length) return;
    if (flowLayer <= layer && (nearest < 0 || flowLayer > side.flow.layers[nearest])) nearest = i;
    if (first < 0 || flowLayer < side.flow.layers[first]) first = i;
  });
  return nearest < 0 ? first : nearest;
}

const matrixCache = new WeakMap<Float32Array, { key: string; matrix: Float32Array }>();

export function readFlowMatrix(capture: Capture, choices: Choices): FlowMatrix {
  const side = capture.header.sides[choices.side];
  const index = flowMapIndex(side, choices.flow, choices.layer);
  const layer = side.flow.layers[index];
  const info = side.layers[layer];
  const [queryTokens, keyTokens] = [querySequence(side, info), side.sequences[info.keys]];
  const [queries, keys] = [toItems(queryTokens, choices.words), toItems(keyTokens, choices.words)];
  const raw = capture.values((side.flow[choices.flow] ?? [])[index]);
  const { words, first, separators, threshold, top } = choices;
  const key = [words, first, separators, threshold, top].join(' ');
  const cached = matrixCache.get(raw);
  if (cached?.key === key) return { layer, info, queries, keys, matrix: cached.matrix };
  let matrix = withoutSinks(raw, keyTokens.tokens.length, sinkModes(keyTokens, choices));
  if (choices.words) matrix = mergeWords(matrix, keyTokens.tokens.length, queries, keys);
  matrix = applyCutoffs(matrix, keys.length, choices.threshold, choices.top);
  matrixCache.set(raw, { key, matrix });
  return { layer, info, queries, keys, matrix };
}

// Without a selection: the last token of a causal model, else the class token, else all tokens.
export function selectQueryRows(side: Side, info: LayerInfo, queries: Item[],
  choices: Choices): QueryRows {
  const rows = itemIndices(queries, choices.queries);
  if (rows.length > 0) {
    return { rows, chosenByUser: true, description: `${rows.length} tokens together (summed)` };
  }
  const causal = info.stack === 'decoder' || (info.mask !== null && side.masks[info.mask].causal);
  if (causal) return { rows: [queries.length - 1], chosenByUser: false,
    description: 'the last token' };
  if (queries[0]?.special) return { rows: [0], chosenByUser: false,
    description: 'the first token' };
  return { rows: queries.map((_, i) => i), chosenByUser: false,
    description: 'the mean of all tokens' };
}

// Combines query rows: the sum if the user selected them, else the mean.
export function combineRows(sum: Float32Array, { rows, chosenByUser }: QueryRows): Float32Array {
  return chosenByUser || rows.length < 2 ? sum : sum.map((value) => value / rows.length);
}
