// A capture that was opened: blocks are inflated and arrays decoded when they are first needed.

import { add, bound, decode, elements, fill, value, type Coded } from './decode';
import { CaptureError, fail } from './failure';
import type { ArrayRef, Header, LayerInfo } from './format';
import { Recent } from './recent';
import type { Need } from './view';

const BLOCKS = 384 * 2 ** 20; // bytes of opened blocks that are kept
const DECODED = 128 * 2 ** 20; // bytes of decoded heads and arrays

export interface Opened {
  header: Header;
  // Values that a view's `needs` asked for; it throws if they are not decoded yet.
  weights(side: number, layer: number): Weights;
  values(ref: ArrayRef): Float32Array;
  part(ref: ArrayRef, index: number): Float32Array; // of the first axis
  bytes(ref: ArrayRef): Uint8Array;
  ready(needs: Need[]): boolean;
  size(needs: Need[]): number; // bytes that are still to be opened
  load(needs: Need[]): Promise<void>;
}

// Weights stay quantized (a byte or two each) and are read by a table: 512 tokens of 12 heads are
// 3 million.
export interface Weights {
  layer: LayerInfo;
  heads: number;
  queries: number;
  keys: number;
  row(head: number, query: number): Float32Array; // a fresh row
  adder(): Adder;
  at(head: number, query: number, key: number): number;
  head(head: number): Float32Array; // (T, S), cached for the last few
  mean(heads: number[]): Float32Array; // (T, S)
  sum(head: number, query: number): number; // of the row before rounding
  bound(head: number, query: number, key: number): number; // of the error that rounding made
  bytes(head: number): Bytes | null; // as they are stored, where that is a byte each
}

// Adds a row, times a factor, to what is there.
export type Adder = (head: number, query: number, factor: number, out: Float32Array) => void;

// A head's weights: of row t and code c, scales[t] * table[c].
export interface Bytes {
  codes: Uint8Array; // (T, S)
  scales: Float32Array; // (T)
  table: Float32Array; // (256)
}

// Where the compressed bytes of a block come from.
export type Source = (block: number) => Uint8Array;

export function open(header: Header, source: Source): Opened {
  const blocks = new Recent<Uint8Array>(BLOCKS);
  const decoded = new Recent<Float32Array | Uint8Array>(DECODED);
  const coded = new WeakMap<Uint8Array, Map<string, Coded>>();
  const seen = new WeakMap<LayerInfo, Weights>();
  const running = new Map<number, Promise<void>>();

  const block = (ref: ArrayRef): Uint8Array =>
    blocks.get(String(ref.block)) ?? fail(`Block ${ref.block} was not opened yet.`);

  const read = (ref: ArrayRef): Coded => {
    const bytes = block(ref);
    let known = coded.get(bytes);
    if (!known) coded.set(bytes, (known = new Map()));
    const key = `${ref.offset} ${ref.code} ${ref.shape.join(' ')}`;
    let found = known.get(key);
    if (!found) known.set(key, (found = decode(ref, bytes)));
    return found;
  };

  const keep = <T extends Float32Array | Uint8Array>(key: string, make: () => T): T => {
    const known = decoded.get(key);
    if (known) return known as T;
    const fresh = make();
    decoded.set(key, fresh, fresh.byteLength);
    return fresh;
  };

  const load = async (index: number, needed: (key: string) => boolean): Promise<void> => {
    const { length, size } = header.blocks[index];
    const packed = source(index);
    if (packed.length !== length) fail(`Block ${index} has ${packed.length} bytes, not ${length}.`);
    const bytes = await inflate(packed, size, `Block ${index}`);
    blocks.set(String(index), bytes, bytes.length, needed);
  };

  return {
    header,
    weights(side, layer) {
      const info = header.sides[side].layers[layer];
      block(info.weights); // so that it counts as used
      let known = seen.get(info);
      if (!known) seen.set(info, (known = weightsOf(info, read, keep, `${side} ${layer}`)));
      return known;
    },
    values: (ref) =>
      keep(`values ${name(ref)}`, () => {
        const array = read(ref);
        return fill(array, 0, array.rows, new Float32Array(elements(ref)));
      }),
    part: (ref, index) =>
      keep(`part ${index} ${name(ref)}`, () => {
        const array = read(ref);
        const rows = array.rows / ref.shape[0];
        const out = new Float32Array(rows * array.columns);
        return fill(array, index * rows, (index + 1) * rows, out);
      }),
    bytes(ref) {
      const { codes } = read(ref);
      if (!(codes instanceof Uint8Array)) fail(`${ref.code} is not an array of bytes.`);
      return codes as Uint8Array;
    },
    ready: (needs) => wanted(header, needs).every((each) => blocks.has(String(each))),
    size: (needs) =>
      wanted(header, needs).reduce(
        (sum, each) => sum + (blocks.has(String(each)) ? 0 : header.blocks[each].size),
        0,
      ),
    async load(needs) {
      const all = wanted(header, needs);
      const keys = new Set(all.map(String));
      for (const each of all) {
        if (blocks.get(String(each))) continue;
        let one = running.get(each);
        if (!one) {
          one = load(each, (key) => keys.has(key)).finally(() => running.delete(each));
          running.set(each, one);
        }
        await one;
      }
    },
  };
}

function name(ref: ArrayRef): string {
  return `${ref.block} ${ref.offset} ${ref.code} ${ref.shape.join(' ')}`;
}

function weightsOf(
  layer: LayerInfo,
  read: (ref: ArrayRef) => Coded,
  keep: (key: string, make: () => Float32Array) => Float32Array,
  where: string,
): Weights {
  const [heads, queries, keys] = layer.weights.shape;
  return {
    layer,
    heads,
    queries,
    keys,
    row(head, query) {
      const row = head * queries + query;
      return fill(read(layer.weights), row, row + 1, new Float32Array(keys));
    },
    adder() {
      const array = read(layer.weights);
      return (head, query, factor, out) => {
        const row = head * queries + query;
        add(array, row, row + 1, out, factor);
      };
    },
    at: (head, query, key) => value(read(layer.weights), head * queries + query, key),
    head: (head) =>
      keep(`head ${where} ${head}`, () =>
        fill(
          read(layer.weights),
          head * queries,
          (head + 1) * queries,
          new Float32Array(queries * keys),
        ),
      ),
    mean: (chosen) =>
      keep(`mean ${where} ${chosen.join(' ')}`, () => {
        const out = new Float32Array(queries * keys);
        for (const head of chosen) {
          add(read(layer.weights), head * queries, (head + 1) * queries, out, 1 / chosen.length);
        }
        return out;
      }),
    sum: (head, query) => value(read(layer.sums), head, query),
    bound(head, query, key) {
      const array = read(layer.weights);
      return bound(array, head * queries + query, key);
    },
    bytes: (head) => stored(read(layer.weights), head, queries),
  };
}

// The same for the same, so that others can keep what they know.
const parts = new WeakMap<Coded, (Bytes | undefined)[]>();

function stored(array: Coded, head: number, queries: number): Bytes | null {
  const { codes, scales, table, columns } = array;
  if (!(codes instanceof Uint8Array) || !scales || !table) return null;
  let all = parts.get(array);
  if (!all) parts.set(array, (all = []));
  return (all[head] ??= {
    codes: codes.subarray(head * queries * columns, (head + 1) * queries * columns),
    scales: scales.subarray(head * queries, (head + 1) * queries),
    table,
  });
}

// Blocks that hold what is needed; what a capture does not have needs nothing.
function wanted(header: Header, needs: Need[]): number[] {
  const blocks = new Set<number>();
  const want = (ref: ArrayRef | null | undefined): void => {
    if (ref) blocks.add(ref.block);
  };
  for (const need of needs) {
    const side = header.sides[need.side];
    if (!side) continue;
    if ('layer' in need) {
      const layer = side.layers[need.layer];
      for (const part of layer ? need.parts : []) want(layer[part]);
      if (layer && need.parts.includes('weights')) want(layer.sums);
    } else if ('flow' in need) want(side.flow[need.flow]?.[need.index]);
    else if ('mask' in need) want(side.masks[need.mask]?.allowed);
    else if ('small' in need) want(side.small);
    else want(side.sequences[need.image]?.image?.pixels);
  }
  return [...blocks];
}

const PIECE = 65536; // compressed bytes at a time: a thousand times as many when opened, at most

// Never more than the size that was declared, whatever the bytes would become.
export async function inflate(packed: Uint8Array, size: number, what: string): Promise<Uint8Array> {
  const out = new Uint8Array(size);
  const { readable, writable } = new DecompressionStream('deflate');
  const [reader, writer] = [readable.getReader(), writable.getWriter()];
  const writing = feed(writer, packed).catch(() => undefined); // the reader hears of it too
  let length = 0;
  try {
    for (;;) {
      const { done, value: chunk } = await reader.read();
      if (done) break;
      if (length + chunk.length > size)
        fail(`${what} becomes more than the ${size} bytes it says.`);
      out.set(chunk, length);
      length += chunk.length;
    }
  } catch (error) {
    void reader.cancel().catch(() => undefined);
    if (error instanceof CaptureError) throw error;
    fail(`${what} is damaged: it cannot be decompressed.`);
  }
  await writing;
  if (length !== size) fail(`${what} becomes ${length} bytes, not the ${size} it says.`);
  return out;
}

async function feed(
  writer: WritableStreamDefaultWriter<BufferSource>,
  packed: Uint8Array,
): Promise<void> {
  for (let i = 0; i < packed.length; i += PIECE) {
    await writer.ready;
    void writer.write(packed.subarray(i, i + PIECE) as BufferSource).catch(() => undefined);
  }
  await writer.close();
}
