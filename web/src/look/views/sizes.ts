// How many weights there are of each size. There are millions, so a size is put in its bin, 32 for
// each power of two, with as little arithmetic as can be.

import type { Bytes } from '../capture';

const FINE = 32; // bins for a power of two
const LOWEST = -160; // powers of two
const BINS = 300 * FINE;
const ENOUGH = 100000; // weights of a head from which on an eighth of the rows is counted for all
const APART = 8;

export interface Sizes {
  counts: Uint32Array;
  all: number; // zeros aside
  most: number; // the largest, to a bin
  exact: boolean; // every weight was counted
  cut: (limit: number) => Cut;
}

// Sizes from `from` on are at most as many as asked for. Where they would be few, because very many
// are alike, those from `below` to `from` are thinned out: one of `every`.
export interface Cut {
  from: number;
  below: number;
  every: number;
}

export function sizes(): Sizes {
  const counts = new Uint32Array(BINS);
  return {
    counts,
    all: 0,
    most: 0,
    exact: true,
    cut(limit) {
      let [bin, taken] = [BINS, 0];
      while (bin > 0 && taken + counts[bin - 1] <= limit) taken += counts[(bin -= 1)];
      if (bin === 0) return { from: 0, below: 0, every: 1 };
      // a bin that is the sum of two may be nearly one too high
      const [from, below] = [bin - 1, bin - 2].map((edge) => 2 ** (edge / FINE + LOWEST));
      if (taken > limit / 2) return { from, below: from, every: 1 };
      return { from, below, every: Math.ceil(counts[bin - 1] / (limit - taken)) };
    },
  };
}

const knownFloats = new WeakMap<Float32Array, Sizes>();
const knownBytes = new WeakMap<Bytes, Sizes>();

function sum(one: Sizes, total: Sizes): void {
  for (let i = 0; i < BINS; i += 1) total.counts[i] += one.counts[i];
  total.all += one.all;
  total.most = Math.max(total.most, one.most);
  total.exact &&= one.exact;
}

// Rows from one that is counted to the next.
const stepOf = (cells: number, rows: number): number => (
  cells > ENOUGH ? Math.max(1, Math.min(APART, rows)) : 1);

// A float's upper bits are its power of two and how far it is to the next.
export function countFloats(
  values: Float32Array,
  columns: number,
  total: Sizes,
  keep: boolean,
): void {
  let one = keep ? knownFloats.get(values) : undefined;
  if (!one) {
    one = sizes();
    const bits = new Uint32Array(values.buffer, values.byteOffset, values.length);
    const { counts } = one;
    const rows = values.length / columns;
    const step = stepOf(values.length, rows);
    let [most, all] = [0, 0];
    for (let row = step >> 1; row < rows; row += step) {
      const end = (row + 1) * columns;
      for (let i = row * columns; i < end; i += 1) {
        const size = bits[i] & 0x7fffffff;
        if (size === 0 || size >= 0x7f800000) continue;
        const bin = LOGARITHM[(size >>> 18) & 31] + ((size >>> 23) - 127 - LOWEST) * FINE;
        counts[bin < 0 ? 0 : bin] += step;
        all += step;
        if (size > most) most = size;
      }
    }
    one.all = all;
    one.exact = step === 1;
    one.most = new Float32Array(Uint32Array.of(most).buffer)[0];
    if (keep) knownFloats.set(values, one);
  }
  sum(one, total);
}

// The bin of what has these five bits behind its power of two.
const LOGARITHM = Uint8Array.from({ length: 32 }, (_, i) =>
  Math.round(Math.log2(1 + (i + 0.5) / 32) * FINE),
);

// The bin of a product is the sum of two bins: one look into a table for each weight.
export function countBytes(bytes: Bytes, total: Sizes): void {
  let one = knownBytes.get(bytes);
  if (!one) {
    one = sizes();
    const { codes, scales, table } = bytes;
    const { counts } = one;
    const places = Int32Array.from(table, (x) => (x === 0 ? 0 : binOf(Math.abs(x))));
    const columns = codes.length / scales.length;
    const step = stepOf(codes.length, scales.length);
    let zeros = 0;
    for (let row = step >> 1; row < scales.length; row += step) {
      if (!(scales[row] > 0)) {
        zeros += columns;
        continue;
      }
      const base = binOf(scales[row]) - LOWEST * FINE; // far above the lowest of `places`
      const end = (row + 1) * columns;
      let nothing = 0;
      for (let i = row * columns; i < end; i += 1) {
        const code = codes[i];
        if (code === 0) nothing += 1;
        else counts[base + places[code]] += step;
      }
      zeros += nothing;
    }
    one.all = Math.max(0, codes.length - zeros * step);
    one.exact = step === 1;
    let top = BINS - 1;
    while (top > 0 && counts[top] === 0) top -= 1;
    one.most = one.all ? 2 ** (top / FINE + LOWEST) : 0;
    knownBytes.set(bytes, one);
  }
  sum(one, total);
}

function binOf(size: number): number {
  return Math.round(Math.log2(size) * FINE);
}

type Take = (cell: number, weight: number) => void;

// Every weight from this size on.
export function eachFloat(values: Float32Array, cut: number, take: Take): void {
  const bits = new Uint32Array(values.buffer, values.byteOffset, values.length);
  const least = Math.max(1, new Uint32Array(Float32Array.of(cut).buffer)[0]);
  for (let i = 0; i < bits.length; i += 1) {
    const size = bits[i] & 0x7fffffff;
    if (size >= least && size < 0x7f800000) take(i, values[i]);
  }
}

// The least code that is enough is found once for a row; then a weight is told by one comparison.
export function eachByte(
  { codes, scales, table }: Bytes,
  columns: number,
  cut: number,
  take: Take,
): void {
  const signed = table[255] < 0;
  const top = signed ? 127 : 255;
  for (let row = 0; row < scales.length; row += 1) {
    const scale = scales[row];
    let least = 1;
    if (!(scale > 0) || scale * table[top] < cut) continue;
    for (let high = top; least < high;) {
      const middle = (least + high) >> 1;
      if (scale * table[middle] >= cut) high = middle;
      else least = middle + 1;
    }
    const end = (row + 1) * columns;
    if (signed) {
      for (let i = row * columns; i < end; i += 1) {
        const code = codes[i];
        if (code >= least && (code <= 127 || 256 - code >= least)) take(i, scale * table[code]);
      }
    } else {
      for (let i = row * columns; i < end; i += 1)
        if (codes[i] >= least) take(i, scale * table[codes[i]]);
    }
  }
}
