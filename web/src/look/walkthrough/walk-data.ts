// The numbers of one token's path: from the capture's walkthrough if it is of this token and layer,
// else from captured queries, keys and values, else from weights alone.

import type { Capture } from '../capture';
import type { ArrayRef, LayerInfo, Side, Token, Walkthrough } from '../capture-format';
import type { Choices } from '../choices';
import {
  allowedRow, biasRow, dotProducts, groupRows, headRows, maskedSoftmax, rowOf, vectorNorm,
} from '../views/attention-scores';
import { lastWordIndex, strongestKey } from '../views/neurons-data';

export interface Part {
  kind: Walkthrough['parts'][number];
  values: Float32Array;
}

export interface Walk {
  side: Side;
  layer: LayerInfo;
  index: number; // of the layer
  head: number; // index among the captured heads
  query: number;
  key: number; // the key that is shown in detail
  queries: Token[];
  keys: Token[];
  recorded: Walkthrough | null; // the capture's walkthrough, if it is of this token and layer
  embedding: Float32Array | null;
  input: Float32Array | null;
  q: Float32Array | null;
  keyVector: (key: number) => Float32Array | null;
  valueVector: (key: number) => Float32Array | null;
  dots: ArrayLike<number> | null;
  bias: Float32Array | null;
  scores: Float64Array | null; // scaled, with bias
  allowed: Uint8Array;
  weights: Float32Array; // as captured
  sum: number; // of the weights, before rounding
  isSoftmax: boolean;
  explained: boolean; // the softmax of the scores gives the weights
  norms: Float32Array | null; // length of each value
  outputs: Float32Array[] | null; // of each captured head
  parts: Part[];
  normFirst: boolean;
  hidden: Float32Array | null;
  stream: Float32Array | null; // after the block
  top: [string, number | null, number][]; // predicted tokens with logit and probability
}

// The layer, head and query that the walkthrough shows: those that are selected, or the recorded ones.
export function walkPlace(capture: Capture, choices: Choices): [number, number, number] {
  const side = capture.header.sides[choices.side];
  const layer = side.layers[choices.layer];
  const { walkthrough } = side;
  const recorded = walkthrough?.layer === choices.layer ? walkthrough : null;
  const { tokens } = side.sequences[layer.queries];
  const head = choices.heads[0] ?? recorded?.head ?? 0;
  return [choices.layer, head, choices.queries[0] ?? recorded?.query ?? lastWordIndex(tokens)];
}

export function recordedWalk(capture: Capture, choices: Choices): Walkthrough | null {
  const walk = capture.header.sides[choices.side].walkthrough;
  const [layer, , query] = walkPlace(capture, choices);
  return walk && walk.layer === layer && walk.query === query ? walk : null;
}

const MAX_DIFFERENCE = 0.02; // of a weight, that rounding in the file explains

export function readWalk(capture: Capture, choices: Choices): Walk {
  const side = capture.header.sides[choices.side];
  const [index, head, query] = walkPlace(capture, choices);
  const layer = side.layers[index];
  const recorded = recordedWalk(capture, choices);
  const weights = capture.weights(choices.side, index);
  const captured = weights.row(head, query);
  const keys = side.sequences[layer.keys].tokens;
  const allowed = allowedRow(capture, choices.side, layer, query, keys.length);
  const values = (ref: ArrayRef | null | undefined): Float32Array | null =>
    ref ? capture.values(ref) : null;
  const row = (ref: ArrayRef | null | undefined, i: number): Float32Array | null =>
    ref ? capture.slice(ref, i) : null;
  const vectors = keyRows(capture, layer, head, recorded);
  const q = row(recorded?.q, head) ?? ownQuery(capture, layer, head, query);
  const dots =
    row(recorded?.dots, head) ??
    (q && vectors.k && layer.k && q.length === layer.k.shape[2]
      ? dotProducts(q, vectors.k, keys.length)
      : null);
  const bias = recorded?.bias
    ? capture.slice(recorded.bias, recorded.bias.shape[0] === 1 ? 0 : head)
    : biasRow(capture, layer, head, query, keys.length);
  const scores =
    dots &&
    Float64Array.from(dots, (dot, key) => dot * (layer.scale ?? 1) + (bias ? bias[key] : 0));
  const isSoftmax = layer.mechanism === 'softmax';
  const added = values(recorded?.added);
  const width = recorded?.added?.shape[1] ?? 0;
  const strongest = strongestKey(captured, keys, layer.kind === 'self' ? query : -1);
  return {
    side, layer, index, head, query, keys, recorded, q, dots, bias, scores, allowed, isSoftmax,
    key: choices.key !== null && choices.key < keys.length ? choices.key : strongest,
    queries: side.sequences[layer.queries].tokens,
    embedding: values(recorded?.embedding),
    input: values(recorded?.input),
    keyVector: (key) => vectors.k && rowOf(vectors.k, key, vectors.k.length / keys.length),
    valueVector: (key) => vectors.v && rowOf(vectors.v, key, vectors.v.length / keys.length),
    weights: captured,
    sum: weights.sum(head, query),
    explained: isSoftmax && scores !== null && isClose(maskedSoftmax(scores, allowed), captured),
    norms: valueNorms(capture, layer, head, vectors.v, keys.length),
    outputs: headOutputs(capture, choices.side, layer, index, query, recorded),
    parts: (recorded?.parts ?? []).map((kind, i) => ({
      kind, values: added ? rowOf(added, i, width) : new Float32Array(0),
    })),
    normFirst: recorded?.norm_first ?? true,
    hidden: values(recorded?.hidden),
    stream: values(recorded?.stream),
    top: predictions(side, layer, query, recorded),
  };
}

function isClose(one: ArrayLike<number>, other: ArrayLike<number>): boolean {
  for (let i = 0; i < one.length; i += 1)
    if (Math.abs(one[i] - other[i]) > MAX_DIFFERENCE) return false;
  return true;
}

function keyRows(
  capture: Capture, layer: LayerInfo, head: number, recorded: Walkthrough | null,
): { k: Float32Array | null; v: Float32Array | null } {
  const place = recorded?.key_heads.indexOf(head) ?? -1;
  if (recorded && place >= 0) {
    const { k, v } = recorded;
    return { k: k && capture.slice(k, place), v: v && capture.slice(v, place) };
  }
  return {
    k: groupRows(capture, layer, layer.k, head), v: groupRows(capture, layer, layer.v, head),
  };
}

function ownQuery(
  capture: Capture, layer: LayerInfo, head: number, query: number,
): Float32Array | null {
  const rows = headRows(capture, layer.q, head);
  return rows && layer.q && rowOf(rows, query, layer.q.shape[2]);
}

function valueNorms(
  capture: Capture, layer: LayerInfo, head: number, v: Float32Array | null, keys: number,
): Float32Array | null {
  if (layer.norms) return capture.slice(layer.norms, head);
  const size = v ? v.length / keys : 0;
  return v && Float32Array.from({ length: keys }, (_, key) => vectorNorm(rowOf(v, key, size)));
}

// The heads' outputs: recorded, or weights times values.
function headOutputs(
  capture: Capture, side: number, layer: LayerInfo, index: number, query: number,
  recorded: Walkthrough | null,
): Float32Array[] | null {
  const heads = layer.heads.map((_, head) => head);
  const { outputs } = recorded ?? {};
  if (outputs) return heads.map((head) => capture.slice(outputs, head));
  if (!layer.v) return null;
  const weights = capture.weights(side, index);
  return heads.map((head) => {
    const rows = groupRows(capture, layer, layer.v, head) ?? new Float32Array(0);
    return weightedSum(weights.row(head, query), rows);
  });
}

export function weightedSum(weights: ArrayLike<number>, rows: Float32Array): Float32Array {
  const size = rows.length / weights.length;
  const sum = new Float32Array(size);
  for (let key = 0; key < weights.length; key += 1)
    for (let d = 0; d < size; d += 1) sum[d] += weights[key] * rows[key * size + d];
  return sum;
}

// With logits if they were recorded; else the probabilities that every token has.
function predictions(
  side: Side, layer: LayerInfo, query: number, recorded: Walkthrough | null,
): [string, number | null, number][] {
  if (recorded?.top.length) return recorded.top;
  const { next } = side;
  if (!next || next.sequence !== layer.queries) return [];
  return next.top[query].map(([text, probability]) => [text, null, probability]);
}

// The weights at another temperature. Without scores that explain the weights, their logarithms
// serve: they differ from the scores by a constant only. Null if the mechanism is no softmax.
export function weightsAt(walk: Walk, temperature: number): ArrayLike<number> | null {
  if (!walk.isSoftmax) return null;
  if (temperature === 1) return walk.weights;
  const { scores, explained, weights, allowed } = walk;
  const known = Uint8Array.from(allowed, (may, key) =>
    may && (explained || weights[key] > 0) ? 1 : 0,
  );
  const base = explained && scores ? scores : Float64Array.from(weights, (x) => Math.log(x));
  return maskedSoftmax(
    base.map((score, key) => (known[key] ? score / temperature : 0)), known,
  );
}

const MAX_ROWS = 16;

// The keys that are listed, in the order of the text: all of a short text; else those with the
// largest weights, the query's own, the one in detail, and the first that are masked.
export function listedKeys(walk: Walk, most = MAX_ROWS): number[] {
  const all = walk.keys.map((_, key) => key);
  if (all.length <= most) return all;
  const byWeight = [...all].sort((a, b) => Math.abs(walk.weights[b]) - Math.abs(walk.weights[a]));
  const own = walk.layer.kind === 'self' ? [walk.query] : [];
  const masked = all.filter((key) => !walk.allowed[key]).slice(0, 2);
  return [...new Set([walk.key, ...own, ...masked, ...byWeight])]
    .slice(0, most)
    .sort((a, b) => a - b);
}
