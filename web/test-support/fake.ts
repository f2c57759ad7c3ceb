// Small captures for the tests of views, opened as real ones are. Every array has a block of its
// own, so that a view which did not name what it reads fails.

import { deflateSync } from 'node:zlib';
import { open, type Opened } from '../src/look/capture';
import { DEFAULTS, type Choices } from '../src/look/choices';
import { measurer } from '../src/shared/fonts';
import type { ArrayRef, Header, LayerInfo, Sequence, Side } from '../src/look/format';
import { validate } from '../src/look/validate';
import type { Drawing, Frame, Mark, View } from '../src/look/view';

export class Blocks {
  readonly packed: Uint8Array[] = [];
  readonly sizes: number[] = [];

  floats(shape: number[], values: ArrayLike<number>): ArrayRef {
    return this.add(shape, 'f32', new Uint8Array(Float32Array.from(values).buffer));
  }

  bytes(shape: number[], values: ArrayLike<number>): ArrayRef {
    return this.add(shape, 'u8', Uint8Array.from(values));
  }

  private add(shape: number[], code: 'f32' | 'u8', bytes: Uint8Array): ArrayRef {
    const packed = deflateSync(bytes);
    this.packed.push(new Uint8Array(packed));
    this.sizes.push(bytes.length);
    return { block: this.packed.length - 1, offset: 0, shape, code, error: 0 };
  }
}

export function sequence(name: string, texts: string[], special: number[] = []): Sequence {
  return {
    name, segments: null, prompt: null, image: null,
    tokens: texts.map((text, i) => ({ text, word: i, special: special.includes(i) })),
  };
}

export function layer(
  blocks: Blocks, [heads, queries, keys]: [number, number, number], weights: ArrayLike<number>,
  more: Partial<LayerInfo> = {},
): LayerInfo {
  const sums = Float64Array.from({ length: heads * queries }, (_, row) => {
    let sum = 0;
    for (let key = 0; key < keys; key++) sum += weights[row * keys + key];
    return sum;
  });
  return {
    name: 'layer.attention', stack: 'encoder', kind: 'self', queries: 0, keys: 0,
    heads: Array.from({ length: heads }, (_, i) => i), all_heads: heads, mechanism: 'softmax',
    signed: false, normalized: true, scale: 1, difference: null, excess: null, note: '',
    norms: null, q: null, k: null, v: null, bias: null, mask: null,
    patterns: Array.from({ length: heads }, () => ({ label: '', scores: {} })),
    weights: blocks.floats([heads, queries, keys], weights),
    sums: blocks.floats([heads, queries], sums),
    ...more,
  };
}

export function side(
  blocks: Blocks, sequences: Sequence[], layers: LayerInfo[], more: Partial<Side> = {},
): Side {
  const maps = layers.reduce((sum, each) => sum + each.heads.length, 0);
  return {
    label: 'a model', model: { name: 'a model', kind: 'encoder', source: 'attnlab', parameters: 1 },
    sequences, masks: [], layers, next: null, control: null,
    flow: { rollout: null, gradient: null, target: '', reasons: {}, layers: [] },
    small: blocks.bytes([maps, 2, 2], new Uint8Array(maps * 4).fill(255)), ...more,
  };
}

export function opened(blocks: Blocks, sides: Side[]): Opened {
  const header: Header = validate({
    format: 'attnlab-capture', version: 1, title: 'a capture', made: {}, notes: [], sides,
    blocks: blocks.packed.map(({ length }, i) => ({ length, size: blocks.sizes[i] })),
  });
  return open(header, (block) => blocks.packed[block]);
}

// What the page does before it draws: only what the view needs is decoded.
export async function framed(
  view: View, capture: Opened, choices: Partial<Choices> = {}, width = 1280, height = 720,
): Promise<Frame> {
  const all = { ...DEFAULTS, ...choices };
  await capture.load(view.needs(capture, all));
  return { opened: capture, choices: all, width, height, measure: measurer(null) };
}

// Numbers between -1 and 1 that look random and are always the same.
export function noise(length: number, seed = 1): Float32Array {
  let state = seed;
  return Float32Array.from({ length }, () => {
    state = (state * 48271) % 2147483647;
    return (state / 2147483647) * 2 - 1;
  });
}

// Weights whose rows sum to 1.
export function shares(heads: number, queries: number, keys: number, seed: number): Float32Array {
  const values = noise(heads * queries * keys, seed).map((value) => Math.exp(3 * value));
  for (let start = 0; start < values.length; start += keys) {
    const row = values.subarray(start, start + keys);
    const sum = row.reduce((total, value) => total + value, 0);
    row.forEach((value, i) => { row[i] = value / sum; });
  }
  return values;
}

// Everything that no drawing may have; a test expects an empty list.
export function problems(drawing: Drawing): string[] {
  const found: string[] = [];
  const { width, height, marks, targets, summary } = drawing;
  const within = (what: string, x: number, y: number, w: number, h: number): void => {
    if (![x, y, w, h].every(Number.isFinite)) found.push(`${what} is nowhere`);
    else if (w < 0 || h < 0) found.push(`${what} has a negative size`);
    else if (x < -1 || y < -1 || x + w > width + 1 || y + h > height + 1) {
      found.push(`${what} is outside`);
    }
  };
  for (const mark of marks) within(mark.kind, ...boxOf(mark));
  for (const target of targets) within(target.label, target.x, target.y, target.w, target.h);
  const keys = targets.map((target) => target.key);
  if (new Set(keys).size !== keys.length) found.push('two targets have one key');
  if (!summary.endsWith('.')) found.push('the summary is no sentence');
  return [...new Set(found)];
}

// Texts have a place and no size: how long they are depends on the font.
function boxOf(mark: Mark): [number, number, number, number] {
  switch (mark.kind) {
    case 'text': return [mark.x, mark.y, 0, 0];
    case 'line': return between([mark.x1, mark.x2], [mark.y1, mark.y2]);
    case 'lines': {
      const places = Array.from(mark.points);
      return between(places.filter((_, i) => i % 2 === 0), places.filter((_, i) => i % 2 === 1));
    }
    case 'poly': return between(mark.points.map(([x]) => x), mark.points.map(([, y]) => y));
    default: return [mark.x, mark.y, mark.w, mark.h];
  }
}

function between(x: number[], y: number[]): [number, number, number, number] {
  if (x.length === 0) return [0, 0, 0, 0];
  const range = (all: number[]): [number, number] => all.reduce(
    ([low, high], each) => [Math.min(low, each), Math.max(high, each)], [all[0], all[0]]);
  const [[left, right], [top, bottom]] = [range(x), range(y)];
  return [left, top, right - left, bottom - top];
}

export const texts = (drawing: Drawing): string[] => (
  drawing.marks.flatMap((mark) => (mark.kind === 'text' ? [mark.text] : [])));
