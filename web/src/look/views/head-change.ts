// How much each head differs between the two sides of a capture.

import type { Capture, Weights } from '../capture';
import type { Need } from '../view';
import { alignTokens, type Alignment } from './align-tokens';
import { correspondingHead, otherSide } from './corresponding-head';

export interface HeadChange {
  layer: number; // of the selected side
  head: number; // index among the layer's captured heads
  otherLayer: number;
  otherHead: number;
  change: number; // from 0 (equal) to 1 (nothing in common)
}

export interface Ranking {
  changes: HeadChange[]; // largest first
  exact: boolean; // computed from the weights, not estimated from the small maps
  explanation: string; // one sentence: how it was computed
}

// Limits for ranking: weights of both sides that may be loaded, and cells that may be read.
const MAX_LOADED_WEIGHTS = 10_000_000;
const MAX_READ_CELLS = 1_600_000; // about 10 ms

// Mean over rows of the total variation distance, if rows sum to 1. It is divided by the sum of both
// rows, so that it stays between 0 and 1 for other rows too. The weights on tokens of one side only
// count as one further key, so that a head that moved there has changed.
export function headDistance(
  first: Weights, firstHead: number, second: Weights, secondHead: number,
  queries: Alignment, keys: Alignment, maxRows = Infinity,
): number {
  const rows = queries.left.length;
  const rowsRead = Math.min(rows, Math.max(1, Math.floor(maxRows)));
  const allRows = rowsRead === rows; // then decode whole heads, which the cache keeps for drawing
  const firstRow = rowReader(first, firstHead, allRows);
  const secondRow = rowReader(second, secondHead, allRows);
  let total = 0;
  for (let n = 0; n < rowsRead; n++) {
    const row = Math.floor(((n + 0.5) * rows) / rowsRead);
    total += rowDistance(firstRow(queries.left[row]), secondRow(queries.right[row]), keys);
  }
  return rowsRead === 0 ? 0 : total / rowsRead;
}

function rowReader(weights: Weights, head: number,
  allRows: boolean): (query: number) => Float32Array {
  if (!allRows) return (query) => weights.row(head, query);
  const matrix = weights.head(head);
  return (query) => matrix.subarray(query * weights.keys, (query + 1) * weights.keys);
}

// The inner loop of the ranking: it allocates nothing.
function rowDistance(a: Float32Array, b: Float32Array, { left, right, same }: Alignment): number {
  let difference = 0;
  let total = 0;
  for (let i = 0; i < left.length; i++) {
    const p = same ? a[i] : a[left[i]];
    const q = same ? b[i] : b[right[i]];
    difference += p < q ? q - p : p - q;
    total += (p < 0 ? -p : p) + (q < 0 ? -q : q);
  }
  if (left.length < a.length || right.length < b.length) {
    const [restA, restB] = [sumOfOthers(a, left), sumOfOthers(b, right)];
    difference += Math.abs(restA - restB);
    total += Math.abs(restA) + Math.abs(restB);
  }
  return total > 0 ? Math.min(1, difference / total) : 0;
}

// The sum of the values whose indices are not in `common`, which is ascending.
function sumOfOthers(values: Float32Array, common: Int32Array): number {
  let [total, next] = [0, 0];
  for (let i = 0; i < values.length; i++) {
    if (common[next] === i) next++;
    else total += values[i];
  }
  return total;
}

// The small maps of one side, each row a distribution, resized to a common size.
interface SmallMaps {
  size: number;
  starts: number[]; // index of the first map of each layer
  rows: Float32Array;
}

export function toDistributions(
  values: Float32Array, maps: number, from: number, to: number,
): Float32Array {
  const rows = new Float32Array(maps * to * to);
  const sources = Int32Array.from({ length: to }, (_, i) => Math.floor((i * from) / to));
  for (let row = 0; row < maps * to; row++) {
    const start = (Math.floor(row / to) * from + sources[row % to]) * from;
    let total = 0;
    for (let j = 0; j < to; j++) {
      const value = values[start + sources[j]];
      total += value < 0 ? -value : value;
    }
    if (!(total > 0)) continue;
    for (let j = 0; j < to; j++) rows[row * to + j] = values[start + sources[j]] / total;
  }
  return rows;
}

// Mean total variation distance of the rows of two small maps. Skips rows that are empty in both.
export function mapDistance(
  first: Float32Array, firstMap: number, second: Float32Array, secondMap: number, size: number,
): number {
  let [total, rows] = [0, 0];
  for (let i = 0; i < size; i++) {
    const a = (firstMap * size + i) * size;
    const b = (secondMap * size + i) * size;
    let difference = 0;
    let nonEmpty = false;
    for (let j = 0; j < size; j++) {
      const p = first[a + j];
      const q = second[b + j];
      difference += p < q ? q - p : p - q;
      nonEmpty ||= p !== 0 || q !== 0;
    }
    if (!nonEmpty) continue;
    total += Math.min(1, difference / 2);
    rows++;
  }
  return rows === 0 ? 0 : total / rows;
}

// Arrays for a ranking: the small maps, and the weights if that is cheap or `exact` is set.
export function rankingNeeds(capture: Capture, side: number, exact = false): Need[] {
  const other = otherSide(side);
  const needs: Need[] = [{ side, small: true }, { side: other, small: true }];
  return exact || isAffordable(capture) ? [...needs, ...exactNeeds(capture, side)] : needs;
}

function isAffordable(capture: Capture): boolean {
  let cells = 0;
  for (const side of capture.header.sides) {
    for (const layer of side.layers) cells += layer.weights.shape.reduce((a, b) => a * b, 1);
  }
  return cells <= MAX_LOADED_WEIGHTS;
}

function exactNeeds(capture: Capture, side: number): Need[] {
  const panels = capture.header.sides;
  const layers = panels[side].layers.map((_, layer) => layer);
  const otherLayers = new Set(layers.map((layer) =>
    correspondingHead(panels[side], panels[otherSide(side)], layer, 0).layer));
  const weights = (sideIndex: number,
    layer: number): Need => ({ side: sideIndex, layer, parts: ['weights'] });
  return [...layers.map((layer) => weights(side, layer)),
    ...[...otherLayers].map((layer) => weights(otherSide(side), layer))];
}

const alignments = new WeakMap<Capture, Map<string, Alignment>>();
const rankings = new WeakMap<Capture, Map<string, Ranking>>();

function cached<T>(caches: WeakMap<Capture, Map<string, T>>, capture: Capture, key: string,
  make: () => T): T {
  let cache = caches.get(capture);
  if (!cache) caches.set(capture, (cache = new Map()));
  const value = cache.get(key);
  if (value !== undefined) return value;
  const created = make();
  cache.set(key, created);
  return created;
}

// Aligns a sequence of this side with a sequence of the other side.
export function alignSequences(capture: Capture, side: number, sequence: number,
  otherSequence: number): Alignment {
  const other = otherSide(side);
  return cached(alignments, capture, `${side} ${sequence} ${otherSequence}`, () =>
    alignTokens(capture.header.sides[side].sequences[sequence].tokens,
      capture.header.sides[other].sequences[otherSequence].tokens));
}

// All heads of a side, those that changed most first. Exact once every layer is loaded. Mixing exact
// and estimated changes would put the loaded layers on top, since small maps hide some of the change.
export function rankHeads(capture: Capture, side: number): Ranking {
  const exact = rankings.get(capture)?.has(`${side} true`)
    || capture.isLoaded(exactNeeds(capture, side));
  return cached(rankings, capture, `${side} ${exact}`, () => {
    const maxRows = exact ? maxRowsToRead(capture, side) : 0;
    const changes = exact ? exactChanges(capture, side, maxRows) : estimatedChanges(capture, side);
    changes.sort((a, b) => b.change - a.change || a.layer - b.layer || a.head - b.head);
    return { changes, exact, explanation: explainRanking(capture, side, exact, maxRows) };
  });
}

function allHeads(capture: Capture, side: number): HeadChange[] {
  const sideInfo = capture.header.sides[side];
  const other = capture.header.sides[otherSide(side)];
  return sideInfo.layers.flatMap((info, layer) => info.heads.map((_, head) => {
    const match = correspondingHead(sideInfo, other, layer, head);
    return { layer, head, otherLayer: match.layer, otherHead: match.head, change: 0 };
  }));
}

function maxRowsToRead(capture: Capture, side: number): number {
  const perRow = capture.header.sides[side].layers.reduce((cells, layer) =>
    cells + 2 * layer.weights.shape[0] * layer.weights.shape[2], 0);
  return Math.max(8, Math.floor(MAX_READ_CELLS / Math.max(1, perRow)));
}

function exactChanges(capture: Capture, side: number, maxRows: number): HeadChange[] {
  return allHeads(capture, side).map((pair) => ({
    ...pair, change: changeBetween(capture, side, pair.layer, pair.head, pair.otherLayer,
      pair.otherHead, maxRows),
  }));
}

// The change between two heads whose layers are loaded.
export function changeBetween(capture: Capture, side: number, layer: number, head: number,
  otherLayer: number, otherHead: number, maxRows = Infinity): number {
  const weights = capture.weights(side, layer);
  const otherWeights = capture.weights(otherSide(side), otherLayer);
  const queries = alignSequences(capture, side, weights.layer.queries, otherWeights.layer.queries);
  const keys = alignSequences(capture, side, weights.layer.keys, otherWeights.layer.keys);
  return headDistance(weights, head, otherWeights, otherHead, queries, keys, maxRows);
}

function computeSmallMaps(capture: Capture, side: number): SmallMaps {
  const sizes = capture.header.sides.map((each) => each.small.shape[1]);
  const size = Math.max(...sizes);
  const { small, layers } = capture.header.sides[side];
  let maps = 0;
  const starts = layers.map((layer) => {
    maps += layer.heads.length;
    return maps - layer.heads.length;
  });
  const roots = capture.values(small); // 255 times the square root of the fraction
  const fractions = new Float32Array(roots.length);
  for (let i = 0; i < fractions.length; i++) fractions[i] = (roots[i] / 255) * (roots[i] / 255);
  const rows = toDistributions(fractions, maps, sizes[side], size);
  return { size, starts, rows };
}

const mapCache = new WeakMap<Capture, Map<string, SmallMaps>>();

const cachedSmallMaps = (capture: Capture, side: number): SmallMaps =>
  cached(mapCache, capture, String(side), () => computeSmallMaps(capture, side));

function estimatedChanges(capture: Capture, side: number): HeadChange[] {
  const [maps, otherMaps] = [cachedSmallMaps(capture, side),
    cachedSmallMaps(capture, otherSide(side))];
  return allHeads(capture, side).map((pair) => ({
    ...pair,
    change: mapDistance(maps.rows, maps.starts[pair.layer] + pair.head,
      otherMaps.rows, otherMaps.starts[pair.otherLayer] + pair.otherHead, maps.size),
  }));
}

// Distance from this head to every head of the other side, from the small maps: one list per layer.
export function distancesToOtherHeads(capture: Capture, side: number, layer: number,
  head: number): number[][] {
  const [maps, otherMaps] = [cachedSmallMaps(capture, side),
    cachedSmallMaps(capture, otherSide(side))];
  return capture.header.sides[otherSide(side)].layers.map((info, i) => info.heads.map((_, j) =>
    mapDistance(maps.rows, maps.starts[layer] + head, otherMaps.rows, otherMaps.starts[i] + j,
      maps.size)));
}

function explainRanking(capture: Capture, side: number, exact: boolean, maxRows: number): string {
  if (!exact) {
    return 'Change is estimated from the small maps (position by position), because loading all '
      + 'weights takes a while; the change of the displayed head is exact.';
  }
  const longest = Math.max(0, ...capture.header.sides[side].layers.map((layer) =>
    layer.weights.shape[1]));
  const rows = longest > maxRows ? ` of ${maxRows} evenly spaced queries` : '';
  return `Change is the mean total variation distance of rows, from the weights${rows}: `
    + '0 means equal, 1 nothing in common.';
}
