// Which lines are drawn between queries and keys: the strongest, as many as a browser can paint.

import type { Bytes } from '../capture';
import type { Choices } from '../choices';
import { headTitle } from '../names';
import { largest, shade, type Seen } from '../prepare';
import { countBytes, countFloats, eachByte, eachFloat, sizes } from './sizes';

export const MOST = 20000; // lines, or a few more
const FAINT = 1 / 48; // opacity that is no longer seen
const MANY = 1e6; // cells whose sums are not worth their time

// The heads that are shown, each on its own, or their mean.
export interface Shown {
  head: number; // place among the layer's heads; -1: the mean
  name: string;
  heads: number[];
  readonly values: Float32Array; // (queries, keys); decoded when it is asked for
  row: (query: number) => Float32Array;
  cell: (query: number, key: number) => number;
  bytes: Bytes | null; // as they are stored, where nothing changed them
}

export function shownHeads(seen: Seen, choices: Choices): Shown[] {
  if (choices.mean && seen.heads.length > 1) return [meanHead(seen)];
  return seen.heads.map((head) => oneHead(seen, head));
}

function oneHead(seen: Seen, head: number): Shown {
  return {
    head,
    name: headTitle(seen.layer, head),
    heads: [head],
    get values() {
      return seen.matrix(head);
    },
    row: (query) => seen.row([head], query),
    cell: (query, key) => seen.cell([head], query, key),
    bytes: seen.plain ? seen.weights.bytes(head) : null,
  };
}

export function meanHead(seen: Seen): Shown {
  if (seen.heads.length === 1) return oneHead(seen, seen.heads[0]);
  return {
    head: -1,
    name: `mean of ${seen.heads.length} heads`,
    heads: seen.heads,
    get values() {
      return seen.mean();
    },
    row: (query) => seen.row(seen.heads, query),
    cell: (query, key) => seen.cell(seen.heads, query, key),
    bytes: null,
  };
}

export interface Strong {
  size: number; // lines
  shown: Uint16Array; // for each line its place in `Shown[]`, its query and its key
  queries: Uint32Array;
  keys: Uint32Array;
  weights: Float32Array;
  most: number; // the largest size, which is drawn strongest
  cut: number; // what is smaller was left out
  alike: number; // of those below this size, one of `every`
  every: number;
  left: number; // lines that were left out, zeros aside
  about: boolean; // that number was estimated
}

interface Part {
  place: number; // in `Shown[]`
  bytes: Bytes | null;
  values: Float32Array; // rows of these queries
  queries: number[] | null; // null: all
  keys: number[] | null;
}

const NOTHING = new Float32Array(0);

// Lines from these queries to these keys (null: all), strong ones first to be chosen.
export function strongest(
  shown: Shown[],
  columns: number,
  queries: number[] | null,
  keys: number[] | null,
  rows: number,
  scale: Choices['scale'],
  limit = MOST,
): Strong {
  const parts = shown.map((one, place) => partOf(one, place, queries, keys, rows));
  const total = sizes();
  for (const part of parts) {
    if (part.bytes) countBytes(part.bytes, total);
    else {
      const width = part.keys ? part.keys.length : columns;
      countFloats(part.values, width, total, part.queries === null && part.keys === null);
    }
  }
  const { from, below, every } = total.cut(limit);
  const cut = Math.max(below, Math.fround(faintest(scale) * total.most));
  const room = Math.ceil(limit * 1.2) + 64; // bins are a few percent wide
  const found: Strong = {
    size: 0,
    shown: new Uint16Array(room),
    queries: new Uint32Array(room),
    keys: new Uint32Array(room),
    weights: new Float32Array(room),
    most: 0,
    cut,
    alike: from,
    every,
    left: 0,
    about: !total.exact,
  };
  for (const part of parts) collect(found, part, columns, room);
  found.most = largest(found.weights.subarray(0, found.size));
  found.left = Math.max(0, total.all - found.size);
  return found;
}

function partOf(
  one: Shown,
  place: number,
  queries: number[] | null,
  keys: number[] | null,
  rows: number,
): Part {
  if (!queries && !keys) {
    return { place, queries, keys, bytes: one.bytes, values: one.bytes ? NOTHING : one.values };
  }
  const asked = queries ?? Array.from({ length: rows }, (_, i) => i);
  const width = keys ? keys.length : one.row(asked[0] ?? 0).length;
  const values = new Float32Array(asked.length * width);
  asked.forEach((query, i) => {
    if (keys)
      keys.forEach((key, j) => {
        values[i * width + j] = one.cell(query, key);
      });
    else values.set(one.row(query), i * width);
  });
  return { place, queries: asked, keys, bytes: null, values };
}

function collect(found: Strong, part: Part, columns: number, room: number): void {
  const { place, queries, keys, bytes, values } = part;
  const { cut, alike, every } = found;
  let turn = place; // so that not every head begins with the same cell
  const width = keys ? keys.length : columns;
  const take = (cell: number, weight: number): void => {
    const line = found.size;
    if (line >= room || (every > 1 && Math.abs(weight) < alike && (turn += 1) % every !== 0))
      return;
    const [row, column] = [Math.floor(cell / width), cell % width];
    found.size = line + 1;
    found.shown[line] = place;
    found.queries[line] = queries ? queries[row] : row;
    found.keys[line] = keys ? keys[column] : column;
    found.weights[line] = weight;
  };
  if (bytes) eachByte(bytes, columns, cut, take);
  else eachFloat(values, cut, take);
}

// The share of the largest weight that is just seen.
function faintest(scale: Choices['scale']): number {
  if (scale === 'sqrt') return FAINT ** 2;
  if (scale === 'linear') return FAINT;
  let [low, high] = [-8, 0]; // in decades
  for (let i = 0; i < 30; i += 1) {
    const middle = (low + high) / 2;
    if (shade(10 ** middle, scale) < FAINT) low = middle;
    else high = middle;
  }
  return 10 ** high;
}

// For each head what each key gets from these queries (null: all) together, and the largest of it.
export function received(
  shown: Shown[],
  columns: number,
  queries: number[] | null,
  rows: number,
): { sums: Float32Array[]; most: number } {
  const asked = queries ?? Array.from({ length: rows }, (_, i) => i);
  if (asked.length * columns * shown.length > MANY) return { sums: [], most: 0 };
  const sums = shown.map((one) => {
    const sum = new Float32Array(columns);
    for (const query of asked) {
      const row = one.row(query);
      for (let key = 0; key < columns; key += 1) sum[key] += row[key];
    }
    return sum;
  });
  return { sums, most: Math.max(0, ...sums.map(largest)) };
}
