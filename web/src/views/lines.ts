// Which lines are drawn between queries and keys: the strongest, within a number that a browser can paint.

import { largest, shade, sumRows, type Seen } from '../prepare';
import type { Choices } from '../choices';
import { headTitle } from '../names';

export const MOST = 20000; // lines
const FAINT = 1 / 48; // opacity that is no longer seen

// The heads that are shown, each on its own, or their mean.
export interface Shown {
  head: number; // place among the layer's heads; -1: the mean
  name: string;
  heads: number[];
  values: Float32Array; // (queries, keys)
}

export function shownHeads(seen: Seen, choices: Choices): Shown[] {
  if (choices.mean && seen.heads.length > 1) return [meanHead(seen)];
  return seen.heads.map((head) => (
    { head, name: headTitle(seen.layer, head), heads: [head], values: seen.matrix(head) }));
}

export function meanHead(seen: Seen): Shown {
  if (seen.heads.length === 1) {
    const head = seen.heads[0];
    return { head, name: headTitle(seen.layer, head), heads: [head], values: seen.matrix(head) };
  }
  return { head: -1, name: `mean of ${seen.heads.length} heads`, heads: seen.heads, values: seen.mean() };
}

export interface Strong {
  size: number; // lines
  shown: Uint16Array; // for each line its place in `Shown[]`, its query and its key
  queries: Uint32Array;
  keys: Uint32Array;
  weights: Float32Array;
  most: number; // the largest size, which is drawn strongest
  cut: number; // what is smaller was left out
  left: number; // lines that were left out, zeros aside
}

// How many weights there are of each size. Without its sign, a float's bits grow with it: the upper ones
// are its bin, 32 for each power of two. No arithmetic, because there are millions.
interface Sizes {
  counts: Uint32Array;
  all: number;
  most: number;
}

const SHIFT = 18;
const BINS = 0x7f800000 >>> SHIFT; // finite ones
const known = new WeakMap<Float32Array, Sizes>();

function bitsOf(values: Float32Array): Uint32Array {
  return new Uint32Array(values.buffer, values.byteOffset, values.length);
}

function count(values: Float32Array, sizes: Sizes): void {
  const { counts } = sizes;
  const bits = bitsOf(values);
  let [most, all] = [0, 0];
  for (let i = 0; i < bits.length; i += 1) {
    const size = bits[i] & 0x7fffffff;
    if (size === 0 || size >= 0x7f800000) continue;
    counts[size >>> SHIFT] += 1;
    all += 1;
    if (size > most) most = size;
  }
  sizes.all += all;
  sizes.most = Math.max(sizes.most, floatOf(most));
}

function floatOf(bits: number): number {
  return new Float32Array(new Uint32Array([bits]).buffer)[0];
}

function sizesOf(shown: Shown[], columns: number, queries: number[] | null, keys: number[] | null): Sizes {
  const total: Sizes = { counts: new Uint32Array(BINS), all: 0, most: 0 };
  for (const { values } of shown) {
    if (queries || keys) {
      parts(values, columns, queries, keys, (start, end) => count(values.subarray(start, end), total));
      continue;
    }
    let one = known.get(values);
    if (!one) {
      known.set(values, one = { counts: new Uint32Array(BINS), all: 0, most: 0 });
      count(values, one);
    }
    for (let i = 0; i < BINS; i += 1) total.counts[i] += one.counts[i];
    total.all += one.all;
    total.most = Math.max(total.most, one.most);
  }
  return total;
}

// Runs of cells: these queries' rows, and of them these keys.
function parts(
  values: Float32Array, columns: number, queries: number[] | null, keys: number[] | null,
  visit: (start: number, end: number) => void,
): void {
  if (!queries && !keys) visit(0, values.length);
  else {
    for (const row of queries ?? Array.from({ length: values.length / columns }, (_, i) => i)) {
      if (!keys) visit(row * columns, (row + 1) * columns);
      else for (const key of keys) visit(row * columns + key, row * columns + key + 1);
    }
  }
}

// Lines from these queries to these keys (null: all), strong ones first to be chosen.
export function strongest(
  shown: Shown[], columns: number, queries: number[] | null, keys: number[] | null,
  scale: Choices['scale'], limit = MOST,
): Strong {
  const { counts, all, most } = sizesOf(shown, columns, queries, keys);
  let [bin, taken] = [BINS, 0];
  while (bin > 0 && taken + counts[bin - 1] <= limit) taken += counts[bin -= 1];
  const cut = Math.max(floatOf(bin << SHIFT), Math.fround(faintest(scale) * most));
  const found: Strong = {
    size: 0, shown: new Uint16Array(taken), queries: new Uint32Array(taken), keys: new Uint32Array(taken),
    weights: new Float32Array(taken), most, cut, left: 0,
  };
  const least = Math.max(1, new Uint32Array(new Float32Array([cut]).buffer)[0]);
  shown.forEach(({ values }, place) => {
    const bits = bitsOf(values);
    parts(values, columns, queries, keys, (start, end) => collect(found, values, bits, columns, place, least, start, end));
  });
  found.left = all - found.size;
  return found;
}

function collect(
  found: Strong, values: Float32Array, bits: Uint32Array, columns: number, place: number, least: number,
  start: number, end: number,
): void {
  for (let i = start; i < end; i += 1) {
    const size = bits[i] & 0x7fffffff;
    if (size < least || size >= 0x7f800000) continue;
    const line = found.size;
    found.size = line + 1;
    found.shown[line] = place;
    found.queries[line] = Math.floor(i / columns);
    found.keys[line] = i % columns;
    found.weights[line] = values[i];
  }
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

// For each head what each key gets from these queries together, and the largest of it.
export function received(
  shown: Shown[], columns: number, queries: number[] | null,
): { sums: Float32Array[]; most: number } {
  const sums = shown.map(({ values }) => (queries ? sumRows(values, columns, queries) : allRows(values, columns)));
  return { sums, most: Math.max(0, ...sums.map(largest)) };
}

const added = new WeakMap<Float32Array, Float32Array>();

function allRows(values: Float32Array, columns: number): Float32Array {
  let sums = added.get(values);
  if (!sums) added.set(values, sums = sumRows(values, columns, Array.from({ length: values.length / columns }, (_, i) => i)));
  return sums;
}
