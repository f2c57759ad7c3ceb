// Arrays of a block. Values stay in their stored code (one or two bytes each); a table decodes them.

import { fail } from './capture-error';
import type { ArrayRef, Code } from './capture-format';

export interface EncodedArray {
  rows: number;
  columns: number;
  codes: Uint8Array | Uint16Array | Float32Array;
  table: Float32Array | null; // value of each code in a row of scale 1
  scales: Float32Array | null; // one per row
  error: number; // largest rounding error, as a fraction of the row scale
  step: number; // half the distance between two square roots in a row of scale 1; 0 for other codes
}

const ROOT_STEPS: Partial<Record<Code, number>> = {
  sqrt8: 1 / 510,
  signed8: 1 / 254,
  sqrt16: 1 / 131070,
  signed16: 1 / 65534,
};

export function countElements(ref: ArrayRef): number {
  return ref.shape.reduce((product, each) => product * each, 1);
}

function countRows(ref: ArrayRef): number {
  return ref.shape.slice(0, -1).reduce((product, each) => product * each, 1);
}

// Number of bytes in the block.
export function byteSize(ref: ArrayRef): number {
  const count = countElements(ref);
  switch (ref.code) {
    case 'f32':
      return 4 * count;
    case 'u8':
      return count;
    case 'bits':
      return Math.ceil(count / 8);
    case 'sqrt8':
    case 'signed8':
      return 4 * countRows(ref) + count;
    default:
      return 4 * countRows(ref) + 2 * count;
  }
}

export function decode(ref: ArrayRef, block: Uint8Array): EncodedArray {
  const bytes = block.subarray(ref.offset, ref.offset + byteSize(ref));
  if (bytes.length !== byteSize(ref)) fail('A block ends before the end of its arrays.');
  const rows = countRows(ref);
  const columns = ref.shape[ref.shape.length - 1] ?? 1;
  const shape = { rows, columns, error: ref.error, step: ROOT_STEPS[ref.code] ?? 0 };
  switch (ref.code) {
    case 'f32':
      return { ...shape, codes: readFloats(bytes, countElements(ref)), table: null, scales: null };
    case 'u8':
      return { ...shape, codes: bytes, table: decodingTable('u8'), scales: null };
    case 'bits':
      return {
        ...shape,
        codes: unpackBits(bytes, countElements(ref)),
        table: decodingTable('u8'),
        scales: null,
      };
    default: {
      const scales = readFloats(bytes, rows).map((each) => (Number.isFinite(each) ? each : NaN));
      const codeBytes = bytes.subarray(4 * rows);
      const codes =
        ref.code === 'sqrt8' || ref.code === 'signed8'
          ? codeBytes
          : joinBytes(codeBytes, countElements(ref));
      return { ...shape, codes, table: decodingTable(ref.code), scales };
    }
  }
}

export function valueAt(coded: EncodedArray, row: number, column: number): number {
  const code = coded.codes[row * coded.columns + column];
  const unscaled = coded.table ? coded.table[code] : code;
  return coded.scales ? unscaled * coded.scales[row] : unscaled;
}

// Upper bound of the rounding error of a value. Square-root codes are more exact for small values.
export function errorBound(coded: EncodedArray, row: number, column: number): number {
  const { scales, error, step } = coded;
  const scale = scales ? Math.abs(scales[row]) : 0;
  if (!step) return error * scale;
  const magnitude = Math.abs(valueAt(coded, row, column));
  return Math.min(error * scale, step * (2 * Math.sqrt(magnitude * scale) + step * scale));
}

// Writes the values of rows [first, last) to `out`.
export function readRows(
  coded: EncodedArray,
  first: number,
  last: number,
  out: Float32Array,
): Float32Array {
  const { columns, codes, table: values, scales } = coded;
  if (codes instanceof Float32Array || !values)
    out.set(codes.subarray(first * columns, last * columns));
  else if (codes instanceof Uint8Array)
    addUint8s(columns, codes, values, scales, first, last, out.fill(0), 1);
  else addUint16s(columns, codes, values, scales, first, last, out.fill(0), 1);
  return out;
}

// Adds the values of rows [first, last), times a factor, to `out`.
export function addRows(
  coded: EncodedArray,
  first: number,
  last: number,
  out: Float32Array,
  factor: number,
): void {
  const { columns, codes, table: values, scales } = coded;
  if (codes instanceof Float32Array || !values) {
    for (let i = 0; i < out.length; i += 1) out[i] += factor * codes[first * columns + i];
  } else if (codes instanceof Uint8Array)
    addUint8s(columns, codes, values, scales, first, last, out, factor);
  else addUint16s(columns, codes, values, scales, first, last, out, factor);
}

// Two copies of one loop: each is several times as fast with a single array type.
function addUint8s(
  columns: number,
  codes: Uint8Array,
  values: Float32Array,
  scales: Float32Array | null,
  first: number,
  last: number,
  out: Float32Array,
  factor: number,
): void {
  let target = 0;
  for (let row = first; row < last; row += 1) {
    const scale = factor * (scales ? scales[row] : 1);
    const end = (row + 1) * columns;
    for (let i = row * columns; i < end; i += 1, target += 1)
      out[target] += scale * values[codes[i]];
  }
}

function addUint16s(
  columns: number,
  codes: Uint16Array,
  values: Float32Array,
  scales: Float32Array | null,
  first: number,
  last: number,
  out: Float32Array,
  factor: number,
): void {
  let target = 0;
  for (let row = first; row < last; row += 1) {
    const scale = factor * (scales ? scales[row] : 1);
    const end = (row + 1) * columns;
    for (let i = row * columns; i < end; i += 1, target += 1)
      out[target] += scale * values[codes[i]];
  }
}

const tables = new Map<Code, Float32Array>();

function decodingTable(code: Code): Float32Array {
  const cached = tables.get(code);
  if (cached) return cached;
  const is16Bit = code.endsWith('16');
  const values = new Float32Array(is16Bit ? 65536 : 256);
  const half = values.length / 2;
  const [isByte, isSquareRoot, isLinear] = [
    code === 'u8',
    code.startsWith('sqrt'),
    code === 'linear16',
  ];
  for (let i = 0; i < values.length; i += 1) {
    const signed = i < half ? i : i - values.length; // two's complement
    const fraction = signed / (half - 1);
    if (isByte) values[i] = i;
    else if (isSquareRoot) values[i] = (i / (values.length - 1)) ** 2;
    else if (isLinear) values[i] = fraction;
    else values[i] = Math.sign(fraction) * fraction * fraction;
  }
  tables.set(code, values);
  return values;
}

function readFloats(bytes: Uint8Array, length: number): Float32Array {
  const copy = bytes.slice(0, 4 * length); // a new buffer is aligned
  if (LITTLE_ENDIAN) return new Float32Array(copy.buffer, 0, length);
  const view = new DataView(copy.buffer);
  return Float32Array.from({ length }, (_, i) => view.getFloat32(4 * i, true));
}

const LITTLE_ENDIAN = new Uint8Array(new Uint16Array([1]).buffer)[0] === 1;

// Joins 16-bit codes: all low bytes come first, then all high bytes.
function joinBytes(bytes: Uint8Array, length: number): Uint16Array {
  const out = new Uint16Array(length);
  for (let i = 0; i < length; i += 1) out[i] = bytes[i] | (bytes[length + i] << 8);
  return out;
}

function unpackBits(bytes: Uint8Array, length: number): Uint8Array {
  const out = new Uint8Array(length);
  for (let i = 0; i < length; i += 1) out[i] = (bytes[i >> 3] >> (7 - (i & 7))) & 1;
  return out;
}
