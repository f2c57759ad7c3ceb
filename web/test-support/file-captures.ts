// Captures for tests as the bytes of a file, with arrays of any code.

import { deflateSync } from 'node:zlib';
import { openFile } from '../src/look/open-capture';
import type { Capture } from '../src/look/capture';
import type { ArrayRef, Code, Header, LayerInfo, Sequence, Side } from '../src/look/capture-format';

const MAGIC = 'attnlab-capture 1\n';

// Blocks with one array each.
export class ArrayBlocks {
  readonly raw: Uint8Array[] = [];

  add(bytes: Uint8Array, shape: number[], code: Code, error = 0): ArrayRef {
    this.raw.push(bytes);
    return { block: this.raw.length - 1, offset: 0, shape, code, error };
  }

  floats(values: number[], shape: number[]): ArrayRef {
    return this.add(new Uint8Array(Float32Array.from(values).buffer), shape, 'f32');
  }
}

export function makeSequence(texts: string[], overrides: Partial<Sequence> = {}): Sequence {
  return {
    name: 'text',
    segments: null,
    prompt: null,
    image: null,
    ...overrides,
    tokens: texts.map((text, i) => ({ text, word: i, special: text.startsWith('[') })),
  };
}

// A layer with these weights, (H, T, S) flat.
export function makeLayer(
  blocks: ArrayBlocks,
  weights: number[],
  shape: [number, number, number],
  overrides: Partial<LayerInfo> = {},
): LayerInfo {
  const [H, T, S] = shape;
  const sums = Array.from({ length: H * T }, (_, row) =>
    weights.slice(row * S, (row + 1) * S).reduce((a, b) => a + b, 0),
  );
  return {
    name: 'layer',
    stack: 'encoder',
    kind: 'self',
    queries: 0,
    keys: 0,
    heads: Array.from({ length: H }, (_, i) => i),
    all_heads: H,
    mechanism: 'softmax',
    signed: false,
    normalised: true,
    scale: null,
    difference: 1e-6,
    excess: 1e-3,
    note: '',
    weights: blocks.floats(weights, shape),
    sums: blocks.floats(sums, [H, T]),
    norms: null,
    q: null,
    k: null,
    v: null,
    bias: null,
    mask: null,
    patterns: Array.from({ length: H }, () => ({ label: '', scores: {} })),
    ...overrides,
  };
}

export function makeHeader(
  blocks: ArrayBlocks,
  sequences: Sequence[],
  layers: LayerInfo[],
  overrides: Partial<Side> = {},
): Header {
  const maps = layers.reduce((total, each) => total + each.heads.length, 0);
  const small = blocks.add(new Uint8Array(maps * 4), [maps, 2, 2], 'u8');
  const side: Side = {
    label: 'made',
    model: { name: 'made', kind: 'encoder', source: 'attnlab', parameters: 10 },
    sequences,
    masks: [],
    layers,
    next: null,
    flow: { rollout: null, gradient: null, target: '', reasons: {}, layers: [] },
    control: null,
    effects: null, walkthrough: null,
    small,
    ...overrides,
  };
  return {
    format: 'attnlab-capture',
    version: 1,
    title: 'made',
    made: {},
    notes: [],
    opening: null,
    highlights: [],
    blocks: [],
    sides: [side],
  };
}

export function makeFile(head: Header, blocks: ArrayBlocks): Uint8Array {
  const packed = blocks.raw.map((each) => new Uint8Array(deflateSync(each)));
  head.blocks = packed.map((each, i) => ({ length: each.length, size: blocks.raw[i].length }));
  return packFile(JSON.stringify(head), packed);
}

export function packFile(json: string, packed: Uint8Array[]): Uint8Array {
  const text = new TextEncoder().encode(json);
  const length = new Uint8Array(8);
  new DataView(length.buffer).setBigUint64(0, BigInt(text.length), true);
  const parts = [new TextEncoder().encode(MAGIC), length, text, ...packed];
  const out = new Uint8Array(parts.reduce((total, each) => total + each.length, 0));
  let offset = 0;
  for (const part of parts) {
    out.set(part, offset);
    offset += part.length;
  }
  return out;
}

// Opens the file and loads the arrays that these tests read.
export async function openCapture(head: Header, blocks: ArrayBlocks): Promise<Capture> {
  const one = openFile(makeFile(head, blocks));
  for (const [side, { layers }] of one.header.sides.entries()) {
    for (const index of layers.keys())
      await one.load([{ side, layer: index, parts: ['weights', 'norms'] }]);
  }
  return one;
}
