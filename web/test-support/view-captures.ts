// Small captures for the tests of views, opened like real ones. Every array has its own block, so
// that a view fails if it reads an array that its `needs` did not name.

import { deflateSync } from 'node:zlib';
import { open, type Capture } from '../src/look/capture';
import { DEFAULTS, type Choices } from '../src/look/choices';
import { createMeasure } from '../src/shared/text-width';
import type { ArrayRef, Header, LayerInfo, Sequence, Side } from '../src/look/capture-format';
import { validate } from '../src/look/validate-header';
import type { Drawing, Frame, Mark, View } from '../src/look/view';

export class ArrayBlocks {
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

export function makeSequence(name: string, texts: string[], special: number[] = []): Sequence {
  return {
    name, segments: null, prompt: null, image: null,
    tokens: texts.map((text, i) => ({ text, word: i, special: special.includes(i) })),
  };
}

export function makeLayer(
  blocks: ArrayBlocks, [heads, queries, keys]: [number, number, number], weights: ArrayLike<number>,
  overrides: Partial<LayerInfo> = {},
): LayerInfo {
  const sums = Float64Array.from({ length: heads * queries }, (_, row) => {
    let sum = 0;
    for (let key = 0; key < keys; key++) sum += weights[row * keys + key];
    return sum;
  });
  return {
    name: 'layer.attention', stack: 'encoder', kind: 'self', queries: 0, keys: 0,
    heads: Array.from({ length: heads }, (_, i) => i), all_heads: heads, mechanism: 'softmax',
    signed: false, normalised: true, scale: 1, difference: null, excess: null, note: '',
    norms: null, q: null, k: null, v: null, bias: null, mask: null,
    patterns: Array.from({ length: heads }, () => ({ label: '', scores: {} })),
    weights: blocks.floats([heads, queries, keys], weights),
    sums: blocks.floats([heads, queries], sums),
    ...overrides,
  };
}

export function makeSide(
  blocks: ArrayBlocks, sequences: Sequence[], layers: LayerInfo[], overrides: Partial<Side> = {},
): Side {
  const maps = layers.reduce((sum, each) => sum + each.heads.length, 0);
  return {
    label: 'a model', model: { name: 'a model', kind: 'encoder', source: 'attnlab', parameters: 1 },
    sequences, masks: [], layers, next: null, control: null, effects: null, walkthrough: null,
    flow: { rollout: null, gradient: null, target: '', reasons: {}, layers: [] },
    small: blocks.bytes([maps, 2, 2], new Uint8Array(maps * 4).fill(255)), ...overrides,
  };
}

export function openCapture(blocks: ArrayBlocks, sides: Side[]): Capture {
  const header: Header = validate({
    format: 'attnlab-capture', version: 1, title: 'a capture', made: {}, notes: [], sides,
    blocks: blocks.packed.map(({ length }, i) => ({ length, size: blocks.sizes[i] })),
  });
  return open(header, (block) => blocks.packed[block]);
}

// Loads only what the view needs, as the page does before it draws.
export async function loadFrame(
  view: View, capture: Capture, choices: Partial<Choices> = {}, width = 1280, height = 720,
): Promise<Frame> {
  const all = { ...DEFAULTS, ...choices };
  await capture.load(view.needs(capture, all));
  return { capture: capture, choices: all, width, height, measure: createMeasure(null) };
}

// Pseudo-random numbers between -1 and 1.
export function pseudoRandom(length: number, seed = 1): Float32Array {
  let state = seed;
  return Float32Array.from({ length }, () => {
    state = (state * 48271) % 2147483647;
    return (state / 2147483647) * 2 - 1;
  });
}

// Weights whose rows sum to 1.
export function randomWeights(heads: number, queries: number, keys: number,
  seed: number): Float32Array {
  const values = pseudoRandom(heads * queries * keys, seed).map((value) => Math.exp(3 * value));
  for (let start = 0; start < values.length; start += keys) {
    const row = values.subarray(start, start + keys);
    const sum = row.reduce((total, value) => total + value, 0);
    row.forEach((value, i) => { row[i] = value / sum; });
  }
  return values;
}

// Lists the faults of a drawing; a test expects an empty list.
export function layoutProblems(drawing: Drawing): string[] {
  const problems: string[] = [];
  const { width, height, marks, targets, summary } = drawing;
  const checkBounds = (what: string, x: number, y: number, w: number, h: number): void => {
    if (![x, y, w, h].every(Number.isFinite)) problems.push(`${what} has no position`);
    else if (w < 0 || h < 0) problems.push(`${what} has a negative size`);
    else if (x < -1 || y < -1 || x + w > width + 1 || y + h > height + 1) {
      problems.push(`${what} is outside the drawing`);
    }
  };
  for (const mark of marks) checkBounds(mark.kind, ...markBounds(mark));
  for (const target of targets) checkBounds(target.label, target.x, target.y, target.w, target.h);
  const keys = targets.map((target) => target.key);
  if (new Set(keys).size !== keys.length) problems.push('two targets have the same key');
  if (!summary.endsWith('.')) problems.push('the summary does not end with a period');
  return [...new Set(problems)];
}

// Texts have a position but no size, because the size depends on the font.
function markBounds(mark: Mark): [number, number, number, number] {
  switch (mark.kind) {
    case 'text': return [mark.x, mark.y, 0, 0];
    case 'line': return bounds([mark.x1, mark.x2], [mark.y1, mark.y2]);
    case 'lines': {
      const coordinates = Array.from(mark.points);
      return bounds(coordinates.filter((_, i) => i % 2 === 0),
        coordinates.filter((_, i) => i % 2 === 1));
    }
    case 'poly': return bounds(mark.points.map(([x]) => x), mark.points.map(([, y]) => y));
    default: return [mark.x, mark.y, mark.w, mark.h];
  }
}

function bounds(x: number[], y: number[]): [number, number, number, number] {
  if (x.length === 0) return [0, 0, 0, 0];
  const range = (all: number[]): [number, number] => all.reduce(
    ([low, high], each) => [Math.min(low, each), Math.max(high, each)], [all[0], all[0]]);
  const [[left, right], [top, bottom]] = [range(x), range(y)];
  return [left, top, right - left, bottom - top];
}

export const drawingTexts = (drawing: Drawing): string[] => (
  drawing.marks.flatMap((mark) => (mark.kind === 'text' ? [mark.text] : [])));
