// A histogram of absolute weights. There are millions of weights, so it uses logarithmic bins (32 per
// power of two) and little arithmetic.

import type { QuantizedHead } from '../capture';

const BINS_PER_OCTAVE = 32; // bins per power of two
const LOWEST_EXPONENT = -160; // exponent of the lowest bin
const BINS = 300 * BINS_PER_OCTAVE;
const MAX_EXACT_WEIGHTS = 100000; // for heads with more weights, count only every eighth row
const ROW_STEP = 8;

export interface Histogram {
  counts: Uint32Array;
  count: number; // number of nonzero weights
  largest: number; // largest absolute weight, to the precision of a bin
  exact: boolean; // every weight was counted
  findCutoff: (limit: number) => Cutoff;
}

// At most `limit` weights are `from` or larger. If that leaves few, because very many weights are
// about equal, one in `keepEvery` of the weights between `thinFrom` and `from` is kept too.
export interface Cutoff {
  from: number;
  thinFrom: number;
  keepEvery: number;
}

export function createHistogram(): Histogram {
  const counts = new Uint32Array(BINS);
  return {
    counts,
    count: 0,
    largest: 0,
    exact: true,
    findCutoff(limit) {
      let [bin, keptCount] = [BINS, 0];
      while (bin > 0 && keptCount + counts[bin - 1] <= limit) keptCount += counts[(bin -= 1)];
      if (bin === 0) return { from: 0, thinFrom: 0, keepEvery: 1 };
      // the bin of a product, a sum of two bins, may be too high by one
      const [from, thinFrom] = [bin - 1, bin - 2].map(
        (edge) => 2 ** (edge / BINS_PER_OCTAVE + LOWEST_EXPONENT),
      );
      if (keptCount > limit / 2) return { from, thinFrom: from, keepEvery: 1 };
      return { from, thinFrom, keepEvery: Math.ceil(counts[bin - 1] / (limit - keptCount)) };
    },
  };
}

const floatHistograms = new WeakMap<Float32Array, Histogram>();
const byteHistograms = new WeakMap<QuantizedHead, Histogram>();

function addHistogram(part: Histogram, total: Histogram): void {
  for (let i = 0; i < BINS; i += 1) total.counts[i] += part.counts[i];
  total.count += part.count;
  total.largest = Math.max(total.largest, part.largest);
  total.exact &&= part.exact;
}

// Number of rows from one counted row to the next.
const rowStep = (cells: number, rows: number): number =>
  cells > MAX_EXACT_WEIGHTS ? Math.max(1, Math.min(ROW_STEP, rows)) : 1;

// Computes the bin from the upper bits of a float: its exponent and the first bits of its mantissa.
export function countFloats(
  values: Float32Array,
  columns: number,
  total: Histogram,
  cache: boolean,
): void {
  let histogram = cache ? floatHistograms.get(values) : undefined;
  if (!histogram) {
    histogram = createHistogram();
    const bits = new Uint32Array(values.buffer, values.byteOffset, values.length);
    const { counts } = histogram;
    const rows = values.length / columns;
    const step = rowStep(values.length, rows);
    let [largestBits, count] = [0, 0];
    for (let row = step >> 1; row < rows; row += step) {
      const end = (row + 1) * columns;
      for (let i = row * columns; i < end; i += 1) {
        const magnitude = bits[i] & 0x7fffffff;
        if (magnitude === 0 || magnitude >= 0x7f800000) continue;
        const bin =
          MANTISSA_BIN[(magnitude >>> 18) & 31] +
          ((magnitude >>> 23) - 127 - LOWEST_EXPONENT) * BINS_PER_OCTAVE;
        counts[bin < 0 ? 0 : bin] += step;
        count += step;
        if (magnitude > largestBits) largestBits = magnitude;
      }
    }
    histogram.count = count;
    histogram.exact = step === 1;
    histogram.largest = new Float32Array(Uint32Array.of(largestBits).buffer)[0];
    if (cache) floatHistograms.set(values, histogram);
  }
  addHistogram(histogram, total);
}

// The bin for the first five bits of the mantissa.
const MANTISSA_BIN = Uint8Array.from({ length: 32 }, (_, i) =>
  Math.round(Math.log2(1 + (i + 0.5) / 32) * BINS_PER_OCTAVE),
);

// The bin of a product is the sum of two bins: one table lookup per weight.
export function countBytes(bytes: QuantizedHead, total: Histogram): void {
  let histogram = byteHistograms.get(bytes);
  if (!histogram) {
    histogram = createHistogram();
    const { codes, scales, table } = bytes;
    const { counts } = histogram;
    const codeBins = Int32Array.from(table, (x) => (x === 0 ? 0 : binOf(Math.abs(x))));
    const columns = codes.length / scales.length;
    const step = rowStep(codes.length, scales.length);
    let zeros = 0;
    for (let row = step >> 1; row < scales.length; row += step) {
      if (!(scales[row] > 0)) {
        zeros += columns;
        continue;
      }
      const base = binOf(scales[row]) - LOWEST_EXPONENT * BINS_PER_OCTAVE; // never negative after adding an entry of `places`
      const end = (row + 1) * columns;
      let rowZeros = 0;
      for (let i = row * columns; i < end; i += 1) {
        const code = codes[i];
        if (code === 0) rowZeros += 1;
        else counts[base + codeBins[code]] += step;
      }
      zeros += rowZeros;
    }
    histogram.count = Math.max(0, codes.length - zeros * step);
    histogram.exact = step === 1;
    let top = BINS - 1;
    while (top > 0 && counts[top] === 0) top -= 1;
    histogram.largest = histogram.count ? 2 ** (top / BINS_PER_OCTAVE + LOWEST_EXPONENT) : 0;
    byteHistograms.set(bytes, histogram);
  }
  addHistogram(histogram, total);
}

function binOf(size: number): number {
  return Math.round(Math.log2(size) * BINS_PER_OCTAVE);
}

type Visit = (cell: number, weight: number) => void;

// Calls `take` for every weight whose absolute value is at least `cut`.
export function forEachFloat(values: Float32Array, cut: number, visit: Visit): void {
  const bits = new Uint32Array(values.buffer, values.byteOffset, values.length);
  const smallestBits = Math.max(1, new Uint32Array(Float32Array.of(cut).buffer)[0]);
  for (let i = 0; i < bits.length; i += 1) {
    const magnitude = bits[i] & 0x7fffffff;
    if (magnitude >= smallestBits && magnitude < 0x7f800000) visit(i, values[i]);
  }
}

// Finds the smallest sufficient code once per row; then each weight needs one comparison.
export function forEachByte(
  { codes, scales, table }: QuantizedHead,
  columns: number,
  cut: number,
  visit: Visit,
): void {
  const signed = table[255] < 0;
  const top = signed ? 127 : 255;
  for (let row = 0; row < scales.length; row += 1) {
    const scale = scales[row];
    let smallestCode = 1;
    if (!(scale > 0) || scale * table[top] < cut) continue;
    for (let high = top; smallestCode < high;) {
      const middle = (smallestCode + high) >> 1;
      if (scale * table[middle] >= cut) high = middle;
      else smallestCode = middle + 1;
    }
    const end = (row + 1) * columns;
    if (signed) {
      for (let i = row * columns; i < end; i += 1) {
        const code = codes[i];
        if (code >= smallestCode && (code <= 127 || 256 - code >= smallestCode))
          visit(i, scale * table[code]);
      }
    } else {
      for (let i = row * columns; i < end; i += 1)
        if (codes[i] >= smallestCode) visit(i, scale * table[codes[i]]);
    }
  }
}
