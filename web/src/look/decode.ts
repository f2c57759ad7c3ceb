// Arrays of a block: values stay as they are stored (a byte or two each) and are read by a table.

import { fail } from './failure';
import type { ArrayRef, Code } from './format';

export interface Coded {
  rows: number;
  columns: number;
  codes: Uint8Array | Uint16Array | Float32Array;
  table: Float32Array | null; // value of each code, for a row whose float is 1
  scales: Float32Array | null; // a float for each row
  error: number; // share of a row's float
  step: number; // half the distance of two square roots, for a row whose float is 1; or 0
}

const STEPS: Partial<Record<Code, number>> = {
  sqrt8: 1 / 510,
  signed8: 1 / 254,
  sqrt16: 1 / 131070,
  signed16: 1 / 65534,
};

export function elements(ref: ArrayRef): number {
  return ref.shape.reduce((product, each) => product * each, 1);
}

function rowsOf(ref: ArrayRef): number {
  return ref.shape.slice(0, -1).reduce((product, each) => product * each, 1);
}

// Bytes in the block.
export function size(ref: ArrayRef): number {
  const all = elements(ref);
  switch (ref.code) {
    case 'f32':
      return 4 * all;
    case 'u8':
      return all;
    case 'bits':
      return Math.ceil(all / 8);
    case 'sqrt8':
    case 'signed8':
      return 4 * rowsOf(ref) + all;
    default:
      return 4 * rowsOf(ref) + 2 * all;
  }
}

export function decode(ref: ArrayRef, block: Uint8Array): Coded {
  const part = block.subarray(ref.offset, ref.offset + size(ref));
  if (part.length !== size(ref)) fail('A block is shorter than its arrays.');
  const rows = rowsOf(ref);
  const columns = ref.shape[ref.shape.length - 1] ?? 1;
  const shape = { rows, columns, error: ref.error, step: STEPS[ref.code] ?? 0 };
  switch (ref.code) {
    case 'f32':
      return { ...shape, codes: floats(part, elements(ref)), table: null, scales: null };
    case 'u8':
      return { ...shape, codes: part, table: table('u8'), scales: null };
    case 'bits':
      return { ...shape, codes: unpack(part, elements(ref)), table: table('u8'), scales: null };
    default: {
      const scales = floats(part, rows).map((each) => (Number.isFinite(each) ? each : NaN));
      const after = part.subarray(4 * rows);
      const codes =
        ref.code === 'sqrt8' || ref.code === 'signed8' ? after : words(after, elements(ref));
      return { ...shape, codes, table: table(ref.code), scales };
    }
  }
}

export function value(coded: Coded, row: number, column: number): number {
  const code = coded.codes[row * coded.columns + column];
  const one = coded.table ? coded.table[code] : code;
  return coded.scales ? one * coded.scales[row] : one;
}

// How far a value can be from what was there before rounding: small values are closer.
export function bound(coded: Coded, row: number, column: number): number {
  const { scales, error, step } = coded;
  const scale = scales ? Math.abs(scales[row]) : 0;
  if (!step) return error * scale;
  const size = Math.abs(value(coded, row, column));
  return Math.min(error * scale, step * (2 * Math.sqrt(size * scale) + step * scale));
}

// Values of rows [first, last) into `out`.
export function fill(coded: Coded, first: number, last: number, out: Float32Array): Float32Array {
  const { columns, codes, table: values, scales } = coded;
  if (codes instanceof Float32Array || !values)
    out.set(codes.subarray(first * columns, last * columns));
  else if (codes instanceof Uint8Array)
    addBytes(columns, codes, values, scales, first, last, out.fill(0), 1);
  else addWords(columns, codes, values, scales, first, last, out.fill(0), 1);
  return out;
}

// The same times a factor, added to what is there.
export function add(
  coded: Coded,
  first: number,
  last: number,
  out: Float32Array,
  factor: number,
): void {
  const { columns, codes, table: values, scales } = coded;
  if (codes instanceof Float32Array || !values) {
    for (let i = 0; i < out.length; i += 1) out[i] += factor * codes[first * columns + i];
  } else if (codes instanceof Uint8Array)
    addBytes(columns, codes, values, scales, first, last, out, factor);
  else addWords(columns, codes, values, scales, first, last, out, factor);
}

// Twice the same, because a loop over one kind of array is several times as fast.
function addBytes(
  columns: number,
  codes: Uint8Array,
  values: Float32Array,
  scales: Float32Array | null,
  first: number,
  last: number,
  out: Float32Array,
  factor: number,
): void {
  let place = 0;
  for (let row = first; row < last; row += 1) {
    const scale = factor * (scales ? scales[row] : 1);
    const end = (row + 1) * columns;
    for (let i = row * columns; i < end; i += 1, place += 1) out[place] += scale * values[codes[i]];
  }
}

function addWords(
  columns: number,
  codes: Uint16Array,
  values: Float32Array,
  scales: Float32Array | null,
  first: number,
  last: number,
  out: Float32Array,
  factor: number,
): void {
  let place = 0;
  for (let row = first; row < last; row += 1) {
    const scale = factor * (scales ? scales[row] : 1);
    const end = (row + 1) * columns;
    for (let i = row * columns; i < end; i += 1, place += 1) out[place] += scale * values[codes[i]];
  }
}

const tables = new Map<Code, Float32Array>();

function table(code: Code): Float32Array {
  const known = tables.get(code);
  if (known) return known;
  const wide = code.endsWith('16');
  const fresh = new Float32Array(wide ? 65536 : 256);
  const half = fresh.length / 2;
  const [plain, root, linear] = [code === 'u8', code.startsWith('sqrt'), code === 'linear16'];
  for (let i = 0; i < fresh.length; i += 1) {
    const signed = i < half ? i : i - fresh.length; // two's complement
    const share = signed / (half - 1);
    if (plain) fresh[i] = i;
    else if (root) fresh[i] = (i / (fresh.length - 1)) ** 2;
    else if (linear) fresh[i] = share;
    else fresh[i] = Math.sign(share) * share * share;
  }
  tables.set(code, fresh);
  return fresh;
}

function floats(bytes: Uint8Array, length: number): Float32Array {
  const copy = bytes.slice(0, 4 * length); // a fresh buffer is aligned
  if (LITTLE) return new Float32Array(copy.buffer, 0, length);
  const view = new DataView(copy.buffer);
  return Float32Array.from({ length }, (_, i) => view.getFloat32(4 * i, true));
}

const LITTLE = new Uint8Array(new Uint16Array([1]).buffer)[0] === 1;

// All low bytes, then all high ones.
function words(bytes: Uint8Array, length: number): Uint16Array {
  const out = new Uint16Array(length);
  for (let i = 0; i < length; i += 1) out[i] = bytes[i] | (bytes[length + i] << 8);
  return out;
}

function unpack(bytes: Uint8Array, length: number): Uint8Array {
  const out = new Uint8Array(length);
  for (let i = 0; i < length; i += 1) out[i] = (bytes[i >> 3] >> (7 - (i & 7))) & 1;
  return out;
}
