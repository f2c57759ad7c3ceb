// Prepares the weights that all views show. The steps, in order: value norms, mean of heads, sinks,
// words, threshold and top. The color scale comes last and changes no number.

import { querySequence } from './query-labels';
import type { Capture, Weights } from './capture';
import type { Choices } from './choices';
import type { LayerInfo, Sequence } from './capture-format';
import { LruCache } from './lru-cache';
import { makeRowTransform, type Item, type ReadRow } from './row-transforms';

export { applyCutoffs, mergeWords, withoutSinks, type Item } from './row-transforms';

const CACHE_BYTES = 128 * 2 ** 20; // bytes of prepared matrices
const LOG_DECADES = 4; // range of the logarithmic scale

export interface PreparedWeights {
  layer: LayerInfo;
  weights: Weights;
  signed: boolean;
  heads: number[]; // the selected ones
  queries: Item[];
  keys: Item[];
  hidden: boolean[]; // keys whose tokens are all hidden as sinks
  adjustments: string[]; // descriptions of how the numbers differ from the weights
  matrix: (head: number) => Float32Array; // (queries, keys) of one head
  mean: () => Float32Array; // of the selected heads
  // One row, a sum of rows, or one cell, without computing the whole matrix where possible.
  row: (heads: number[], query: number) => Float32Array;
  sum: (heads: number[], queries: number[]) => Float32Array; // over these rows
  cell: (heads: number[], query: number, key: number) => number;
  unchanged: boolean; // the numbers are the captured weights
  errorBound: (heads: number[], query: number, key: number) => number; // upper bound of the rounding error; NaN if unknown
}

export function toItems(sequence: Sequence, words: boolean): Item[] {
  const itemCache = words ? wordItems : tokenItems;
  let items = itemCache.get(sequence);
  if (!items) itemCache.set(sequence, (items = groupTokens(sequence, words)));
  return items;
}

const [tokenItems, wordItems] = [new WeakMap<Sequence, Item[]>(), new WeakMap<Sequence, Item[]>()];

function groupTokens(sequence: Sequence, words: boolean): Item[] {
  const items: Item[] = [];
  sequence.tokens.forEach((token, i) => {
    const last = items[items.length - 1];
    const previous = sequence.tokens[i - 1];
    const continuesWord =
      words &&
      previous !== undefined &&
      !token.special &&
      !previous.special &&
      token.word >= 0 &&
      token.word === previous.word;
    if (!continuesWord) items.push({ text: token.text, tokens: [i], special: token.special });
    else {
      last.tokens.push(i);
      last.text +=
        token.text.length > 2 && token.text.startsWith('##') ? token.text.slice(2) : token.text;
    }
  });
  return items;
}

// Indices of the items that contain one of these tokens.
export function itemIndices(items: Item[], tokens: number[]): number[] {
  const tokenSet = new Set(tokens);
  return items.flatMap((item, i) => (item.tokens.some((each) => tokenSet.has(each)) ? [i] : []));
}

export function selectedHeads(layer: LayerInfo, choices: Choices): number[] {
  const selected = choices.heads.filter((each) => each < layer.heads.length);
  return selected.length ? selected : layer.heads.map((_, i) => i);
}

export function prepareWeights(
  capture: Capture,
  choices: Choices,
  side = choices.side,
  index = choices.layer,
): PreparedWeights {
  const captureSide = capture.header.sides[side];
  const layer = captureSide.layers[index];
  const weights = capture.weights(side, index);
  const [queryTokens, keyTokens] = [
    querySequence(captureSide, layer),
    captureSide.sequences[layer.keys],
  ];
  const queries = toItems(queryTokens, choices.words);
  const keys = toItems(keyTokens, choices.words);
  const sinks = sinkModes(keyTokens, choices);
  const norms = choices.weighting === 'norms' && layer.norms ? capture.values(layer.norms) : null;
  const heads = selectedHeads(layer, choices);
  const cacheKey = [
    side,
    index,
    choices.words,
    choices.first,
    choices.separators,
    norms !== null,
    choices.threshold,
    choices.top,
  ].join(' ');
  const transformRow = makeRowTransform(
    { sinks, queries, keys, words: choices.words, threshold: choices.threshold, top: choices.top },
    weights.keys,
  );
  const adjustments = describeAdjustments(choices, norms !== null);
  const unchanged = adjustments.length === 0;
  const matrix = (headIndices: number[]): Float32Array => {
    if (unchanged)
      return headIndices.length === 1 ? weights.head(headIndices[0]) : weights.mean(headIndices);
    return cached(capture, `${cacheKey} ${headIndices.join(' ')}`, () => {
      const read = matrixReader(weights, norms, headIndices);
      const out = new Float32Array(queries.length * keys.length);
      for (let q = 0; q < queries.length; q += 1)
        transformRow(read, q, out.subarray(q * keys.length, (q + 1) * keys.length));
      return out;
    });
  };
  return {
    layer,
    weights,
    signed: layer.signed,
    heads,
    queries,
    keys,
    hidden: keys.map((item) => item.tokens.every((each) => sinks[each] > 0)),
    adjustments,
    unchanged,
    matrix: (head) => matrix([head]),
    mean: () => matrix(heads),
    row(headIndices, query) {
      const out = new Float32Array(keys.length);
      transformRow(rowReader(weights, norms, headIndices), query, out);
      return out;
    },
    sum(headIndices, queryIndices) {
      const [read, row] = [rowReader(weights, norms, headIndices), new Float32Array(keys.length)];
      const out = new Float32Array(keys.length);
      for (const query of queryIndices) {
        transformRow(read, query, row);
        for (let k = 0; k < out.length; k += 1) out[k] += row[k];
      }
      return out;
    },
    cell: (headIndices, query, key) =>
      unchanged
        ? headIndices.reduce((sum, head) => sum + weights.at(head, query, key), 0) /
          headIndices.length
        : matrix(headIndices)[query * keys.length + key],
    errorBound: (headIndices, query, key) =>
      meanErrorBound(weights, norms, headIndices, queries[query], keys[key], sinks),
  };
}

const caches = new WeakMap<Capture, LruCache<Float32Array>>();

function cached(capture: Capture, key: string, make: () => Float32Array): Float32Array {
  let cache = caches.get(capture);
  if (!cache) caches.set(capture, (cache = new LruCache(CACHE_BYTES)));
  const value = cache.get(key);
  if (value) return value;
  const created = make();
  cache.set(key, created, created.byteLength);
  return created;
}

function describeAdjustments(choices: Choices, norms: boolean): string[] {
  const descriptions: string[] = [];
  const sinkTexts = { show: '', hide: 'hidden', renormalize: 'removed, the rest scaled up' };
  if (norms) descriptions.push('times the norm of the value');
  if (choices.first !== 'show') descriptions.push(`first token ${sinkTexts[choices.first]}`);
  if (choices.separators !== 'show')
    descriptions.push(`separators ${sinkTexts[choices.separators]}`);
  if (choices.words) descriptions.push('subwords merged: sum over keys, mean over queries');
  if (choices.threshold > 0) descriptions.push(`below ${choices.threshold} hidden`);
  if (choices.top > 0) descriptions.push(`only the ${choices.top} largest of each query`);
  return descriptions;
}

// For each key token: 0 if shown, 1 if hidden, 2 if hidden and the rest of the row is scaled up.
export function sinkModes(
  sequence: Sequence,
  choices: Pick<Choices, 'first' | 'separators'>,
): Uint8Array {
  const mode = { show: 0, hide: 1, renormalize: 2 };
  return Uint8Array.from(sequence.tokens, (token, i) => {
    if (i === 0) return mode[choices.first];
    return token.special ? mode[choices.separators] : 0;
  });
}

// Reads rows of one head, or of the mean of several heads; times the value norms, if given.
function rowReader(weights: Weights, norms: Float32Array | null, heads: number[]): ReadRow {
  const add = weights.rowAdder();
  const fraction = 1 / heads.length;
  if (!norms) {
    return (query, out) => {
      out.fill(0);
      for (const head of heads) add(head, query, fraction, out);
    };
  }
  const row = new Float32Array(weights.keys);
  return (query, out) => {
    out.fill(0);
    for (const head of heads) {
      add(head, query, fraction, row.fill(0));
      const first = head * weights.keys;
      for (let k = 0; k < row.length; k += 1) out[k] += row[k] * norms[first + k];
    }
  };
}

// For reading all rows: uses the cached mean, which needs all weights of the layer anyway.
function matrixReader(weights: Weights, norms: Float32Array | null, heads: number[]): ReadRow {
  if (norms || heads.length === 1) return rowReader(weights, norms, heads);
  const mean = weights.mean(heads);
  return (query, out) => out.set(mean.subarray(query * weights.keys, (query + 1) * weights.keys));
}

function meanErrorBound(
  weights: Weights,
  norms: Float32Array | null,
  heads: number[],
  query: Item,
  key: Item,
  sinks: Uint8Array,
): number {
  if (sinks.includes(2)) return NaN; // division by a rounded sum has no simple bound
  let total = 0;
  for (const head of heads) {
    for (const t of query.tokens) {
      for (const s of key.tokens) {
        if (sinks[s] === 0)
          total += weights.errorBound(head, t, s) * (norms ? norms[head * weights.keys + s] : 1);
      }
    }
  }
  return total / (query.tokens.length * heads.length);
}

// The sum over rows: the attention of several queries together.
export function sumRows(values: Float32Array, columns: number, rows: number[]): Float32Array {
  const out = new Float32Array(columns);
  for (const row of rows) {
    for (let k = 0; k < columns; k += 1) out[k] += values[row * columns + k];
  }
  return out;
}

export function maxAbs(values: Float32Array): number {
  let largest = 0;
  for (let i = 0; i < values.length; i += 1) {
    const magnitude = values[i] < 0 ? -values[i] : values[i];
    if (magnitude > largest) largest = magnitude; // NaN is never larger
  }
  return largest;
}

// Maps a fraction of the largest weight (0 to 1) to the strength of its color (0 to 1).
export function colorStrength(fraction: number, scale: Choices['scale']): number {
  if (!(fraction > 0)) return 0;
  if (fraction >= 1) return 1;
  if (scale === 'sqrt') return Math.sqrt(fraction);
  return scale === 'log' ? Math.max(0, 1 + Math.log10(fraction) / LOG_DECADES) : fraction;
}

// Maps all values to color strengths, -1 to 1.
export function colorStrengths(
  values: Float32Array,
  largest: number,
  scale: Choices['scale'],
): Float32Array {
  const out = new Float32Array(values.length);
  if (!(largest > 0)) return out;
  if (scale === 'linear') {
    for (let i = 0; i < values.length; i += 1) {
      const fraction = values[i] / largest;
      out[i] = fraction > 1 ? 1 : fraction < -1 ? -1 : fraction;
    }
    return out;
  }
  for (let i = 0; i < values.length; i += 1) {
    const fraction = values[i] / largest;
    out[i] = fraction < 0 ? -colorStrength(-fraction, scale) : colorStrength(fraction, scale);
  }
  return out;
}
