// An open capture. Blocks are inflated and arrays decoded when they are first needed.

import {
  addRows,
  errorBound,
  decode,
  countElements,
  readRows,
  valueAt,
  type EncodedArray,
} from './decode-arrays';
import { CaptureError, fail } from './capture-error';
import type { ArrayRef, Effects, Header, LayerInfo, Walkthrough } from './capture-format';
import type { SwitchHeads } from './switch-heads';
import { LruCache } from './lru-cache';
import type { Need } from './view';

const BLOCK_CACHE_BYTES = 384 * 2 ** 20; // bytes of inflated blocks
const ARRAY_CACHE_BYTES = 128 * 2 ** 20; // bytes of decoded heads and arrays

export interface Capture {
  header: Header;
  // Each of these throws if `load` has not inflated the block yet.
  weights(side: number, layer: number): Weights;
  values(ref: ArrayRef): Float32Array;
  slice(ref: ArrayRef, index: number): Float32Array; // one index of the first axis
  bytes(ref: ArrayRef): Uint8Array;
  isLoaded(needs: Need[]): boolean;
  bytesToLoad(needs: Need[]): number; // bytes that are still to be inflated
  load(needs: Need[]): Promise<void>;
  switchHeads?: SwitchHeads; // in the studio and in notebooks: the model is there to ask
}

// Weights stay quantized (one or two bytes each) and are decoded by a lookup table, because 12 heads
// of 512 tokens have 3 million of them.
export interface Weights {
  layer: LayerInfo;
  heads: number;
  queries: number;
  keys: number;
  row(head: number, query: number): Float32Array; // a new array
  rowAdder(): AddRow;
  at(head: number, query: number, key: number): number;
  head(head: number): Float32Array; // (T, S), cached
  mean(heads: number[]): Float32Array; // (T, S)
  sum(head: number, query: number): number; // of the row, before rounding
  errorBound(head: number, query: number, key: number): number; // upper bound of the rounding error
  quantized(head: number): QuantizedHead | null; // the stored bytes; null for other codes
}

// Adds a row, times a factor, to `out`.
export type AddRow = (head: number, query: number, factor: number, out: Float32Array) => void;

// The weights of one head: the weight with code c in row t is scales[t] * table[c].
export interface QuantizedHead {
  codes: Uint8Array; // (T, S)
  scales: Float32Array; // (T)
  table: Float32Array; // (256)
}

// Returns the compressed bytes of a block.
export type ReadBlock = (block: number) => Uint8Array;

export function open(header: Header, readBlock: ReadBlock): Capture {
  const blocks = new LruCache<Uint8Array>(BLOCK_CACHE_BYTES);
  const arrayCache = new LruCache<Float32Array | Uint8Array>(ARRAY_CACHE_BYTES);
  const encodedByBlock = new WeakMap<Uint8Array, Map<string, EncodedArray>>();
  const weightsByLayer = new WeakMap<LayerInfo, Weights>();
  const pendingLoads = new Map<number, Promise<void>>();

  const block = (ref: ArrayRef): Uint8Array =>
    blocks.get(String(ref.block)) ?? fail(`Block ${ref.block} is not loaded yet.`);

  const decodeArray = (ref: ArrayRef): EncodedArray => {
    const bytes = block(ref);
    let arrays = encodedByBlock.get(bytes);
    if (!arrays) encodedByBlock.set(bytes, (arrays = new Map()));
    const key = `${ref.offset} ${ref.code} ${ref.shape.join(' ')}`;
    let array = arrays.get(key);
    if (!array) arrays.set(key, (array = decode(ref, bytes)));
    return array;
  };

  const cached = <T extends Float32Array | Uint8Array>(key: string, make: () => T): T => {
    const value = arrayCache.get(key);
    if (value) return value as T;
    const created = make();
    arrayCache.set(key, created, created.byteLength);
    return created;
  };

  const loadBlock = async (index: number, needed: (key: string) => boolean): Promise<void> => {
    const { length, size } = header.blocks[index];
    const packed = readBlock(index);
    if (packed.length !== length)
      fail(`Block ${index} has ${packed.length} bytes, but the header says ${length}.`);
    const bytes = await inflate(packed, size, `Block ${index}`);
    blocks.set(String(index), bytes, bytes.length, needed);
  };

  return {
    header,
    weights(side, layer) {
      const info = header.sides[side].layers[layer];
      block(info.weights); // marks the block as recently used
      let layerWeights = weightsByLayer.get(info);
      if (!layerWeights)
        weightsByLayer.set(
          info,
          (layerWeights = readWeights(info, decodeArray, cached, `${side} ${layer}`)),
        );
      return layerWeights;
    },
    values: (ref) =>
      cached(`values ${arrayKey(ref)}`, () => {
        const array = decodeArray(ref);
        return readRows(array, 0, array.rows, new Float32Array(countElements(ref)));
      }),
    slice: (ref, index) =>
      cached(`part ${index} ${arrayKey(ref)}`, () => {
        const array = decodeArray(ref);
        const rows = array.rows / ref.shape[0];
        const out = new Float32Array(rows * array.columns);
        return readRows(array, index * rows, (index + 1) * rows, out);
      }),
    bytes(ref) {
      const { codes } = decodeArray(ref);
      if (!(codes instanceof Uint8Array))
        fail(
          `An array of code ${ref.code} has no bytes to return; the code must be u8, bits, sqrt8 or signed8.`,
        );
      return codes as Uint8Array;
    },
    isLoaded: (needs) => neededBlocks(header, needs).every((each) => blocks.has(String(each))),
    bytesToLoad: (needs) =>
      neededBlocks(header, needs).reduce(
        (sum, each) => sum + (blocks.has(String(each)) ? 0 : header.blocks[each].size),
        0,
      ),
    async load(needs) {
      const indices = neededBlocks(header, needs);
      const keys = new Set(indices.map(String));
      for (const index of indices) {
        if (blocks.get(String(index))) continue;
        let loading = pendingLoads.get(index);
        if (!loading) {
          loading = loadBlock(index, (key) => keys.has(key)).finally(() =>
            pendingLoads.delete(index),
          );
          pendingLoads.set(index, loading);
        }
        await loading;
      }
    },
  };
}

function arrayKey(ref: ArrayRef): string {
  return `${ref.block} ${ref.offset} ${ref.code} ${ref.shape.join(' ')}`;
}

function readWeights(
  layer: LayerInfo,
  decodeArray: (ref: ArrayRef) => EncodedArray,
  cached: (key: string, make: () => Float32Array) => Float32Array,
  cacheKey: string,
): Weights {
  const [heads, queries, keys] = layer.weights.shape;
  return {
    layer,
    heads,
    queries,
    keys,
    row(head, query) {
      const row = head * queries + query;
      return readRows(decodeArray(layer.weights), row, row + 1, new Float32Array(keys));
    },
    rowAdder() {
      const array = decodeArray(layer.weights);
      return (head, query, factor, out) => {
        const row = head * queries + query;
        addRows(array, row, row + 1, out, factor);
      };
    },
    at: (head, query, key) => valueAt(decodeArray(layer.weights), head * queries + query, key),
    head: (head) =>
      cached(`head ${cacheKey} ${head}`, () =>
        readRows(
          decodeArray(layer.weights),
          head * queries,
          (head + 1) * queries,
          new Float32Array(queries * keys),
        ),
      ),
    mean: (headIndices) =>
      cached(`mean ${cacheKey} ${headIndices.join(' ')}`, () => {
        const out = new Float32Array(queries * keys);
        for (const head of headIndices) {
          addRows(
            decodeArray(layer.weights),
            head * queries,
            (head + 1) * queries,
            out,
            1 / headIndices.length,
          );
        }
        return out;
      }),
    sum: (head, query) => valueAt(decodeArray(layer.sums), head, query),
    errorBound(head, query, key) {
      const array = decodeArray(layer.weights);
      return errorBound(array, head * queries + query, key);
    },
    quantized: (head) => quantizedHead(decodeArray(layer.weights), head, queries),
  };
}

// The same object for the same head, so that callers can use it as a key of a WeakMap.
const quantizedHeads = new WeakMap<EncodedArray, (QuantizedHead | undefined)[]>();

function quantizedHead(array: EncodedArray, head: number, queries: number): QuantizedHead | null {
  const { codes, scales, table, columns } = array;
  if (!(codes instanceof Uint8Array) || !scales || !table) return null;
  let heads = quantizedHeads.get(array);
  if (!heads) quantizedHeads.set(array, (heads = []));
  return (heads[head] ??= {
    codes: codes.subarray(head * queries * columns, (head + 1) * queries * columns),
    scales: scales.subarray(head * queries, (head + 1) * queries),
    table,
  });
}

// Indices of the blocks that hold these arrays. Arrays that the capture lacks are skipped.
function neededBlocks(header: Header, needs: Need[]): number[] {
  const blocks = new Set<number>();
  const addBlock = (ref: ArrayRef | null | undefined): void => {
    if (ref) blocks.add(ref.block);
  };
  for (const need of needs) {
    const side = header.sides[need.side];
    if (!side) continue;
    if ('layer' in need) {
      const layer = side.layers[need.layer];
      for (const part of layer ? need.parts : []) addBlock(layer[part]);
      if (layer && need.parts.includes('weights')) addBlock(layer.sums);
    } else if ('flow' in need) addBlock(side.flow[need.flow]?.[need.index]);
    else if ('mask' in need) addBlock(side.masks[need.mask]?.allowed);
    else if ('small' in need) addBlock(side.small);
    else if ('walkthrough' in need) walkthroughArrays(side.walkthrough).forEach(addBlock);
    else if ('effects' in need) effectArrays(side.effects).forEach(addBlock);
    else addBlock(side.sequences[need.image]?.image?.pixels);
  }
  return [...blocks];
}

function walkthroughArrays(walk: Walkthrough | null): (ArrayRef | null)[] {
  if (!walk) return [];
  const { embedding, input, q, dots, bias, k, v, outputs, added, hidden, stream } = walk;
  return [embedding, input, q, dots, bias, k, v, outputs, added, hidden, stream];
}

function effectArrays(effects: Effects | null): (ArrayRef | null | undefined)[] {
  if (!effects) return [];
  const { heads, lens, patching } = effects;
  return [...heads, lens?.best_probability, lens?.target_probability, patching?.restored];
}

const CHUNK_BYTES = 65536; // compressed bytes at a time; zlib inflates them to at most a thousand times as many

// Stops as soon as the output exceeds the declared size, so that a zip bomb does no harm.
export async function inflate(packed: Uint8Array, size: number, name: string): Promise<Uint8Array> {
  const out = new Uint8Array(size);
  const { readable, writable } = new DecompressionStream('deflate');
  const [reader, writer] = [readable.getReader(), writable.getWriter()];
  const writing = writeChunks(writer, packed).catch(() => undefined); // reader.read() fails too
  let length = 0;
  try {
    for (;;) {
      const { done, value: chunk } = await reader.read();
      if (done) break;
      if (length + chunk.length > size)
        fail(`${name} inflates to more than the ${size} bytes that the header says.`);
      out.set(chunk, length);
      length += chunk.length;
    }
  } catch (error) {
    void reader.cancel().catch(() => undefined);
    if (error instanceof CaptureError) throw error;
    fail(`${name} is damaged: it cannot be decompressed.`);
  }
  await writing;
  if (length !== size)
    fail(`${name} inflates to ${length} bytes, not the ${size} that the header says.`);
  return out;
}

async function writeChunks(
  writer: WritableStreamDefaultWriter<BufferSource>,
  packed: Uint8Array,
): Promise<void> {
  for (let i = 0; i < packed.length; i += CHUNK_BYTES) {
    await writer.ready;
    void writer.write(packed.subarray(i, i + CHUNK_BYTES) as BufferSource).catch(() => undefined);
  }
  await writer.close();
}
