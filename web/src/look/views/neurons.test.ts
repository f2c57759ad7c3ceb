import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Opened } from '../capture';
import type { LayerInfo } from '../format';
import type { Table } from '../../shared/table';
import { Blocks, framed, layer, noise, opened, problems, sequence, side, texts } from '../../../test-support/fake';
import { neurons } from './neurons';
import { groupOf, softmaxOf } from './scores';

const WORDS = ['[CLS]', 'a', 'b', 'c', 'd', 'e', 'f', 'g', 'h', '[SEP]'];

interface Shape {
  heads: number[]; // that were kept
  all: number;
  groups: number[];
  T: number;
  S: number;
  D: number;
  M: number;
}

const column = (table: Table, part: string, name: string): (string | number)[] => (
  table.rows.filter((row) => row[0] === part).map((row) => row[table.header.indexOf(name)]));

// The definition, in double precision: for each head and query a softmax over what is allowed.
function define(
  { heads, groups, T, S, D }: Shape, q: Float32Array, k: Float32Array, bias: Float32Array,
  allowed: number[], scale: number,
): Float64Array {
  const weights = new Float64Array(heads.length * T * S);
  for (let h = 0; h < heads.length; h++) {
    for (let t = 0; t < T; t++) {
      const scores = Array.from({ length: S }, (_, s) => {
        let dot = 0;
        for (let d = 0; d < D; d++) dot += q[(h * T + t) * D + d] * k[(groups[h] * S + s) * D + d];
        return allowed[t * S + s] ? dot * scale + bias[t * S + s] : -Infinity;
      });
      const most = Math.max(...scores);
      if (most === -Infinity) continue; // nothing to look at
      const powers = scores.map((score) => Math.exp(score - most));
      const total = powers.reduce((sum, power) => sum + power, 0);
      powers.forEach((power, s) => { weights[(h * T + t) * S + s] = power / total; });
    }
  }
  return weights;
}

// Cross-attention, so that the two texts differ in length.
function capture(shape: Shape, allowed: number[], more: Partial<LayerInfo> = {}) {
  const { heads, all, groups, T, S, D, M } = shape;
  const blocks = new Blocks();
  const keyHeads = Math.max(...groups) + 1;
  const q = noise(heads.length * T * D, 3).map((value) => value * 3);
  const k = noise(keyHeads * S * D, 5).map((value) => value * 3);
  const v = noise(keyHeads * S * M, 7);
  const bias = noise(T * S, 11);
  const scale = 1 / Math.sqrt(D);
  const weights = define(shape, q, k, bias, allowed, scale);
  const one = layer(blocks, [heads.length, T, S], weights, {
    stack: 'decoder', kind: 'cross', queries: 1, keys: 0, heads, all_heads: all, groups, scale,
    mask: 0,
    q: blocks.floats([heads.length, T, D], q), k: blocks.floats([keyHeads, S, D], k),
    v: blocks.floats([keyHeads, S, M], v), bias: blocks.floats([1, T, S], bias), ...more,
  });
  const sequences = [sequence('source', WORDS.slice(0, S)), sequence('target', WORDS.slice(0, T))];
  const masks = [{ causal: false, allowed: blocks.bytes([T, S], allowed) }];
  return { file: opened(blocks, [side(blocks, sequences, [one], { masks })]), weights, q, k, v };
}

const SHAPE: Shape = { heads: [1, 4, 5], all: 6, groups: [0, 1, 1], T: 7, S: 5, D: 11, M: 3 };
const ALL = new Array<number>(35).fill(1);

// Two keys and two elements: dots 3 and 2, half of them 1.5 and 1, softmax 0.6225 and 0.3775.
function byHand(more: Partial<LayerInfo> = {}): Opened {
  const blocks = new Blocks();
  const one = layer(blocks, [1, 1, 2], [0.6224593, 0.3775407], {
    scale: 0.5, keys: 1, groups: [0], q: blocks.floats([1, 1, 2], [1, 2]),
    k: blocks.floats([1, 2, 2], [3, 0, 0, 1]),
    v: blocks.floats([1, 2, 3], [2, 3, 6, 0, 0, 0]), ...more,
  });
  const sequences = [sequence('a', ['x']), sequence('b', ['left', 'right'])];
  return opened(blocks, [side(blocks, sequences, [one])]);
}

describe('the numbers', () => {
  it('are those of a small example by hand', async () => {
    const frame = await framed(neurons, byHand(), { key: 0 });
    const table = neurons.table(frame);
    expect(column(table, 'element', 'q × k')).toEqual([3, 0, '']);
    expect(column(table, 'element', 'sum so far')).toEqual([3, 3, '']);
    expect(column(table, 'element', 'v')).toEqual([2, 3, 6]);
    expect(column(table, 'key', 'q · k')).toEqual([3, 2]);
    expect(column(table, 'key', 'score')).toEqual([1.5, 1]);
    expect(column(table, 'key', 'softmax')[0]).toBeCloseTo(0.6224593, 6);
    const shown = texts(neurons.draw(frame));
    expect(shown).toContain('7.00000'); // length of (2, 3, 6)
    expect(shown).toContain('4.35722'); // times the weight
    expect(shown.some((text) => text.endsWith('only rounding'))).toBe(true);
  });

  it('equal the definition for every shape, bias and mask', async () => {
    const size = (most: number) => fc.integer({ min: 1, max: most });
    await fc.assert(fc.asyncProperty(
      size(3), size(4), size(7), size(6), size(5), size(4), fc.infiniteStream(fc.boolean()),
      async (groups, each, T, S, D, M, coins) => {
        const heads = Array.from({ length: groups * each }, (_, h) => h);
        const shape: Shape = {
          heads, all: heads.length, groups: heads.map((h) => Math.floor(h / each)), T, S, D, M };
        const allowed = Array.from({ length: T * S }, () => Number(coins.next().value));
        const { file, weights } = capture(shape, allowed);
        const [head, query, key] = [heads.length - 1, T - 1, S - 1];
        const choices = { heads: [head], queries: [query], key };
        const frame = await framed(neurons, file, choices);
        const softmax = column(neurons.table(frame), 'key', 'softmax') as number[];
        softmax.forEach((value, s) => (
          expect(value).toBeCloseTo(weights[(head * T + query) * S + s], 5)));
        const drawing = neurons.draw(frame);
        expect(texts(drawing).some((text) => text.endsWith('only rounding'))).toBe(true);
        expect(problems(drawing)).toEqual([]);
      }), { numRuns: 40 });
  });

  it('read the key head of a head by its group, however few heads were kept', async () => {
    const { file, k, v } = capture(SHAPE, ALL);
    const table = neurons.table(await framed(neurons, file, { heads: [1], queries: [2], key: 4 }));
    const from = (1 * 5 + 4) * 11;
    (column(table, 'element', 'k') as number[]).forEach((value, d) => (
      expect(value).toBeCloseTo(k[from + d], 5)));
    expect(column(table, 'element', 'v')[2]).toBeCloseTo(v[(1 * 5 + 4) * 3 + 2], 5);
    const layers = file.header.sides[0].layers;
    expect([0, 1, 2].map((head) => groupOf(layers[0], head, 2))).toEqual([0, 1, 1]);
    expect(groupOf({ ...layers[0], groups: undefined, heads: [0, 1, 2, 3] }, 3, 2)).toBe(1);
  });

  it('are zeros for a query that may look at nothing, and extreme scores overflow nowhere', () => {
    expect([...softmaxOf(Float64Array.of(1, 2), Uint8Array.of(0, 0))]).toEqual([0, 0]);
    expect([...softmaxOf(Float64Array.of(1e4, -1e4), Uint8Array.of(1, 1))]).toEqual([1, 0]);
  });

  it('are exact under the pointer', async () => {
    const drawing = neurons.draw(await framed(neurons, byHand(), { key: 0 }));
    const bars = drawing.marks.filter((mark) => mark.kind === 'rect' && mark.fill === 'card');
    const strip = bars[0] as { x: number; y: number; w: number; h: number };
    const target = drawing.at?.(strip.x + strip.w * 0.75, strip.y + 3);
    expect(target?.tip?.()).toEqual([
      'element 1', 'q of “x”: 2.000000', 'k of “left”: 0', 'q × k: 0', 'sum so far: 3.000000']);
    expect(target?.over?.()).toHaveLength(4);
    expect(drawing.at?.(strip.x - 5, strip.y)).toBeNull();
  });
});

describe('what is said', () => {
  it('is that other mechanisms have no softmax', async () => {
    const drawing = neurons.draw(await framed(neurons, byHand({ mechanism: 'elu', scale: null })));
    expect(texts(drawing).join(' ')).toContain('its weight is not a softmax of the scores');
    expect(texts(drawing).some((text) => text.startsWith('softmax'))).toBe(false);
    expect(drawing.summary).not.toContain('softmax');
  });

  it('is that a layer does more than its scores tell, if it does', async () => {
    const honest = neurons.draw(await framed(neurons, byHand()));
    const capped = neurons.draw(await framed(neurons, byHand({ scale: 0.7 })));
    expect(texts(honest).join(' ')).not.toContain('more than the file rounds');
    expect(texts(capped).join(' ')).toContain('more than the file rounds');
  });

  it('is what a mechanism does not read', async () => {
    const file = byHand({ mechanism: 'synthesizer', k: null });
    const drawing = neurons.draw(await framed(neurons, file));
    expect(texts(drawing).join(' ')).toContain('There are no keys: synthesizer has none.');
    expect(texts(drawing)).not.toContain('score');
    expect(problems(drawing)).toEqual([]);
  });

  it('is how to capture what is missing', async () => {
    const blocks = new Blocks();
    const bare = layer(blocks, [1, 2, 2], [1, 0, 0, 1]);
    const full = { ...bare, q: blocks.floats([1, 2, 3], noise(6)) };
    const file = opened(blocks, [side(blocks, [sequence('t', ['a', 'b'])], [bare, bare])]);
    const { choices } = await framed(neurons, file);
    expect(neurons.missing(file, choices)).toContain('--neurons');
    const half = opened(blocks, [side(blocks, [sequence('t', ['a', 'b'])], [bare, full])]);
    expect(neurons.missing(half, choices)).toContain('other layers only: 1');
    expect(neurons.missing(half, { ...choices, layer: 1 })).toBeNull();
    expect(neurons.layers?.(half, choices)).toEqual([1]);
  });
});

describe('choices', () => {
  it('default to the last word and to the other word that it looks at most', async () => {
    const blocks = new Blocks();
    const weights = [0.9, 0.01, 0.06, 0.03];
    const one = layer(blocks, [1, 4, 4], [0, 1, 2, 3].flatMap(() => weights), {
      q: blocks.floats([1, 4, 2], noise(8)), k: blocks.floats([1, 4, 2], noise(8, 9)) });
    const text = sequence('t', ['[CLS]', 'dog', 'ran', '.'], [0]);
    const file = opened(blocks, [side(blocks, [text], [one])]);
    expect(neurons.draw(await framed(neurons, file)).summary).toContain('from “ran” to “dog”');
    const far = await framed(neurons, file, { queries: [99, 1], key: 99, heads: [7] });
    expect(neurons.draw(far).summary).toContain('from “dog” to “ran”');
  });

  it('can be changed by targets for every query and every key', async () => {
    const { file } = capture(SHAPE, ALL);
    const { targets } = neurons.draw(await framed(neurons, file, { heads: [2] }));
    const picks = targets.flatMap(({ pick }) => (pick ? [pick] : []));
    expect(picks).toEqual([
      ...[0, 1, 2, 3, 4, 5, 6].map((i) => ({ queries: [i] })),
      ...[0, 1, 2, 3, 4].map((key) => ({ key }))]);
    const tip = targets[targets.length - 1].tip?.() ?? [];
    const first = tip.map((each) => each.split(' ')[0]);
    expect(first).toEqual(['“f”', 'q', 'bias', 'score', 'softmax', 'weight']);
  });
});

describe('the drawing', () => {
  it('keeps its place at any width and length', async () => {
    for (const [T, width] of [[1, 320], [2, 500], [40, 859], [40, 860], [400, 320], [700, 2560]]) {
      const blocks = new Blocks();
      const one = layer(blocks, [1, T, T], noise(T * T).map(Math.abs), {
        q: blocks.floats([1, T, 64], noise(T * 64)), k: blocks.floats([1, T, 64], noise(T * 64, 5)),
        v: blocks.floats([1, T, 64], noise(T * 64, 6)) });
      const text = sequence('t', Array.from({ length: T }, (_, i) => `word${i}`));
      const file = opened(blocks, [side(blocks, [text], [one])]);
      const drawing = neurons.draw(await framed(neurons, file, {}, width));
      expect(problems(drawing)).toEqual([]);
      expect(drawing.height).toBeLessThan(5000);
    }
  });

  it('marks masked keys by a word, and long runs of them once', async () => {
    const { file } = capture(SHAPE, ALL.map((_, i) => Number(i % 5 !== 3)));
    const drawing = neurons.draw(await framed(neurons, file));
    expect(texts(drawing).filter((text) => text === 'masked')).toHaveLength(2); // score and weight
    expect(column(neurons.table(await framed(neurons, file)), 'key', 'may look'))
      .toEqual(['yes', 'yes', 'yes', 'no', 'yes']);
  });

  it('shows hostile and endless tokens as short text', async () => {
    const hostile = ['</script><script>alert(1)</script>', '\u0000\u202e\ud800', 'x'.repeat(10000)];
    const blocks = new Blocks();
    const one = layer(blocks, [1, 3, 3], noise(9), {
      q: blocks.floats([1, 3, 2], noise(6)), k: blocks.floats([1, 3, 2], noise(6)) });
    const file = opened(blocks, [side(blocks, [sequence('t', hostile)], [one])]);
    for (const width of [320, 1280]) {
      const drawing = neurons.draw(await framed(neurons, file, {}, width));
      for (const text of texts(drawing)) {
        expect(text.length).toBeLessThan(200);
        expect(text).not.toMatch(/[\u0000\u202e]/);
      }
      expect(problems(drawing)).toEqual([]);
    }
  });
});
