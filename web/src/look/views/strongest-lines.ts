// Selects the lines to draw between queries and keys: the strongest, as many as a browser can paint.

import type { QuantizedHead } from '../capture';
import type { Choices } from '../choices';
import { headTitle } from '../names';
import { maxAbs, colorStrength, type PreparedWeights } from '../prepare-weights';
import {
  countBytes,
  countFloats,
  forEachByte,
  forEachFloat,
  createHistogram,
} from './weight-histogram';

export const MAX_LINES = 20000; // lines (about)
const MIN_OPACITY = 1 / 48; // lowest visible opacity
const MAX_SUMMED_CELLS = 1e6; // largest number of cells to sum over

// A head to display, or the mean of several.
export interface DisplayedHead {
  head: number; // index among the layer's heads; -1 for the mean
  name: string;
  heads: number[];
  readonly values: Float32Array; // (queries, keys); decoded on first use
  row: (query: number) => Float32Array;
  cell: (query: number, key: number) => number;
  bytes: QuantizedHead | null; // the stored bytes, if no choice changes the weights
}

export function displayedHeads(prepared: PreparedWeights, choices: Choices): DisplayedHead[] {
  if (choices.mean && prepared.heads.length > 1) return [meanHead(prepared)];
  return prepared.heads.map((head) => singleHead(prepared, head));
}

function singleHead(prepared: PreparedWeights, head: number): DisplayedHead {
  return {
    head,
    name: headTitle(prepared.layer, head),
    heads: [head],
    get values() {
      return prepared.matrix(head);
    },
    row: (query) => prepared.row([head], query),
    cell: (query, key) => prepared.cell([head], query, key),
    bytes: prepared.unchanged ? prepared.weights.quantized(head) : null,
  };
}

export function meanHead(prepared: PreparedWeights): DisplayedHead {
  if (prepared.heads.length === 1) return singleHead(prepared, prepared.heads[0]);
  return {
    head: -1,
    name: `mean of ${prepared.heads.length} heads`,
    heads: prepared.heads,
    get values() {
      return prepared.mean();
    },
    row: (query) => prepared.row(prepared.heads, query),
    cell: (query, key) => prepared.cell(prepared.heads, query, key),
    bytes: null,
  };
}

export interface LineSet {
  size: number; // number of lines
  headIndices: Uint16Array; // for each line the index of its head, its query and its key
  queries: Uint32Array;
  keys: Uint32Array;
  weights: Float32Array;
  largest: number; // largest absolute weight, drawn strongest
  cut: number; // smaller weights are left out
  thinBelow: number; // of weights below this one, only one in `keepEvery` is drawn
  keepEvery: number;
  leftOut: number; // lines left out, without zeros
  leftOutEstimated: boolean; // `leftOut` is an estimate
}

interface HeadPart {
  headIndex: number;
  bytes: QuantizedHead | null;
  values: Float32Array; // rows of these queries
  queries: number[] | null; // null means all
  keys: number[] | null;
}

const EMPTY = new Float32Array(0);

// The strongest lines from these queries to these keys; null means all.
export function strongestLines(
  heads: DisplayedHead[],
  columns: number,
  queries: number[] | null,
  keys: number[] | null,
  rows: number,
  scale: Choices['scale'],
  limit = MAX_LINES,
): LineSet {
  const parts = heads.map((head, i) => makePart(head, i, queries, keys, rows));
  const histogram = createHistogram();
  for (const part of parts) {
    if (part.bytes) countBytes(part.bytes, histogram);
    else {
      const width = part.keys ? part.keys.length : columns;
      countFloats(part.values, width, histogram, part.queries === null && part.keys === null);
    }
  }
  const { from, thinFrom, keepEvery } = histogram.findCutoff(limit);
  const cut = Math.max(thinFrom, Math.fround(smallestVisible(scale) * histogram.largest));
  const capacity = Math.ceil(limit * 1.2) + 64; // histogram bins are a few percent wide
  const lines: LineSet = {
    size: 0,
    headIndices: new Uint16Array(capacity),
    queries: new Uint32Array(capacity),
    keys: new Uint32Array(capacity),
    weights: new Float32Array(capacity),
    largest: 0,
    cut,
    thinBelow: from,
    keepEvery,
    leftOut: 0,
    leftOutEstimated: !histogram.exact,
  };
  for (const part of parts) collectLines(lines, part, columns, capacity);
  lines.largest = maxAbs(lines.weights.subarray(0, lines.size));
  lines.leftOut = Math.max(0, histogram.count - lines.size);
  return lines;
}

function makePart(
  head: DisplayedHead,
  headIndex: number,
  queries: number[] | null,
  keys: number[] | null,
  rows: number,
): HeadPart {
  if (!queries && !keys) {
    return {
      headIndex,
      queries,
      keys,
      bytes: head.bytes,
      values: head.bytes ? EMPTY : head.values,
    };
  }
  const queryIndices = queries ?? Array.from({ length: rows }, (_, i) => i);
  const width = keys ? keys.length : head.row(queryIndices[0] ?? 0).length;
  const values = new Float32Array(queryIndices.length * width);
  queryIndices.forEach((query, i) => {
    if (keys)
      keys.forEach((key, j) => {
        values[i * width + j] = head.cell(query, key);
      });
    else values.set(head.row(query), i * width);
  });
  return { headIndex, queries: queryIndices, keys, bytes: null, values };
}

function collectLines(lines: LineSet, part: HeadPart, columns: number, capacity: number): void {
  const { headIndex, queries, keys, bytes, values } = part;
  const { cut, thinBelow, keepEvery } = lines;
  let counter = headIndex; // offset, so that each head drops different cells
  const width = keys ? keys.length : columns;
  const addLine = (cell: number, weight: number): void => {
    const line = lines.size;
    if (
      line >= capacity ||
      (keepEvery > 1 && Math.abs(weight) < thinBelow && (counter += 1) % keepEvery !== 0)
    )
      return;
    const [row, column] = [Math.floor(cell / width), cell % width];
    lines.size = line + 1;
    lines.headIndices[line] = headIndex;
    lines.queries[line] = queries ? queries[row] : row;
    lines.keys[line] = keys ? keys[column] : column;
    lines.weights[line] = weight;
  };
  if (bytes) forEachByte(bytes, columns, cut, addLine);
  else forEachFloat(values, cut, addLine);
}

// The smallest visible weight, as a fraction of the largest.
function smallestVisible(scale: Choices['scale']): number {
  if (scale === 'sqrt') return MIN_OPACITY ** 2;
  if (scale === 'linear') return MIN_OPACITY;
  let [low, high] = [-8, 0]; // in decades
  for (let i = 0; i < 30; i += 1) {
    const middle = (low + high) / 2;
    if (colorStrength(10 ** middle, scale) < MIN_OPACITY) low = middle;
    else high = middle;
  }
  return 10 ** high;
}

// For each head the total weight of each key over these queries (null means all), and the maximum.
export function receivedWeights(
  heads: DisplayedHead[],
  columns: number,
  queries: number[] | null,
  rows: number,
): { sums: Float32Array[]; largest: number } {
  const queryIndices = queries ?? Array.from({ length: rows }, (_, i) => i);
  if (queryIndices.length * columns * heads.length > MAX_SUMMED_CELLS)
    return { sums: [], largest: 0 };
  const sums = heads.map((head) => {
    const sum = new Float32Array(columns);
    for (const query of queryIndices) {
      const row = head.row(query);
      for (let key = 0; key < columns; key += 1) sum[key] += row[key];
    }
    return sum;
  });
  return { sums, largest: Math.max(0, ...sums.map(maxAbs)) };
}
