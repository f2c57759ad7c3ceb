import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Capture } from '../capture';
import type { LayerInfo } from '../capture-format';
import type { Table } from '../../shared/table-type';
import { ArrayBlocks, loadFrame, makeLayer, pseudoRandom, openCapture, layoutProblems,
  makeSequence, makeSide, drawingTexts } from '../../../test-support/view-captures';
import { neurons } from './neurons';
import { keyHeadIndex, maskedSoftmax } from './attention-scores';

const WORDS = ['[CLS]', 'a', 'b', 'c', 'd', 'e', 'f', 'g', 'h', '[SEP]'];

interface Shape {
  heads: number[]; // captured ones
  all: number;
  groups: number[];
  T: number;
  S: number;
  D: number;
  M: number;
}

const column = (table: Table, part: string, name: string): (string | number)[] => (
  table.rows.filter((row) => row[0] === part).map((row) => row[table.header.indexOf(name)]));

// The definition in float64: for each head and query a softmax over the allowed keys.
function expectedWeights(
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
      const largest = Math.max(...scores);
      if (largest === -Infinity) continue; // no allowed key
      const powers = scores.map((score) => Math.exp(score - largest));
      const total = powers.reduce((sum, power) => sum + power, 0);
      powers.forEach((power, s) => { weights[(h * T + t) * S + s] = power / total; });
    }
  }
  return weights;
}

// Cross-attention, because the two texts have different lengths.
function capture(shape: Shape, allowed: number[], options: Partial<LayerInfo> = {}) {
  const { heads, all, groups, T, S, D, M } = shape;
  const blocks = new ArrayBlocks();
  const keyHeads = Math.max(...groups) + 1;
  const q = pseudoRandom(heads.length * T * D, 3).map((value) => value * 3);
  const k = pseudoRandom(keyHeads * S * D, 5).map((value) => value * 3);
  const v = pseudoRandom(keyHeads * S * M, 7);
  const bias = pseudoRandom(T * S, 11);
  const scale = 1 / Math.sqrt(D);
  const weights = expectedWeights(shape, q, k, bias, allowed, scale);
  const one = makeLayer(blocks, [heads.length, T, S], weights, {
    stack: 'decoder', kind: 'cross', queries: 1, keys: 0, heads, all_heads: all, groups, scale,
    mask: 0,
    q: blocks.floats([heads.length, T, D], q), k: blocks.floats([keyHeads, S, D], k),
    v: blocks.floats([keyHeads, S, M], v), bias: blocks.floats([1, T, S], bias), ...options,
  });
  const sequences = [makeSequence('source', WORDS.slice(0, S)),
    makeSequence('target', WORDS.slice(0, T))];
  const masks = [{ causal: false, allowed: blocks.bytes([T, S], allowed) }];
  return { file: openCapture(blocks, [makeSide(blocks, sequences, [one], { masks })]), weights, q,
    k, v };
}

const SHAPE: Shape = { heads: [1, 4, 5], all: 6, groups: [0, 1, 1], T: 7, S: 5, D: 11, M: 3 };
const ALL = new Array<number>(35).fill(1);

// Two keys and two elements: dots 3 and 2, half of them 1.5 and 1, softmax 0.6225 and 0.3775.
function byHand(options: Partial<LayerInfo> = {}): Capture {
  const blocks = new ArrayBlocks();
  const one = makeLayer(blocks, [1, 1, 2], [0.6224593, 0.3775407], {
    scale: 0.5, keys: 1, groups: [0], q: blocks.floats([1, 1, 2], [1, 2]),
    k: blocks.floats([1, 2, 2], [3, 0, 0, 1]),
    v: blocks.floats([1, 2, 3], [2, 3, 6, 0, 0, 0]), ...options,
  });
  const sequences = [makeSequence('a', ['x']), makeSequence('b', ['left', 'right'])];
  return openCapture(blocks, [makeSide(blocks, sequences, [one])]);
}

describe('the numbers', () => {
  it('agree with a small example by hand', async () => {
    const frame = await loadFrame(neurons, byHand(), { key: 0 });
    const table = neurons.table(frame);
    expect(column(table, 'element', 'q × k')).toEqual([3, 0, '']);
    expect(column(table, 'element', 'sum so far')).toEqual([3, 3, '']);
    expect(column(table, 'element', 'v')).toEqual([2, 3, 6]);
    expect(column(table, 'key', 'q · k')).toEqual([3, 2]);
    expect(column(table, 'key', 'score')).toEqual([1.5, 1]);
    expect(column(table, 'key', 'softmax')[0]).toBeCloseTo(0.6224593, 6);
    const texts = drawingTexts(neurons.draw(frame));
    expect(texts).toContain('7.00'); // norm of (2, 3, 6)
    expect(texts).toContain('4.36'); // times the weight
    expect(texts.some((text) => text.endsWith('only rounding'))).toBe(true);
  });

  it('agree with the definition for every shape, bias and mask', async () => {
    const size = (max: number) => fc.integer({ min: 1, max: max });
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
        const frame = await loadFrame(neurons, file, choices);
        const softmax = column(neurons.table(frame), 'key', 'softmax') as number[];
        softmax.forEach((value, s) => (
          expect(value).toBeCloseTo(weights[(head * T + query) * S + s], 5)));
        const drawing = neurons.draw(frame);
        expect(drawingTexts(drawing).some((text) => text.endsWith('only rounding'))).toBe(true);
        expect(layoutProblems(drawing)).toEqual([]);
      }), { numRuns: 40 });
  });

  it('use the key head of the group, even if few heads were captured', async () => {
    const { file, k, v } = capture(SHAPE, ALL);
    const table = neurons.table(await loadFrame(neurons, file,
      { heads: [1], queries: [2], key: 4 }));
    const from = (1 * 5 + 4) * 11;
    (column(table, 'element', 'k') as number[]).forEach((value, d) => (
      expect(value).toBeCloseTo(k[from + d], 5)));
    expect(column(table, 'element', 'v')[2]).toBeCloseTo(v[(1 * 5 + 4) * 3 + 2], 5);
    const layers = file.header.sides[0].layers;
    expect([0, 1, 2].map((head) => keyHeadIndex(layers[0], head, 2))).toEqual([0, 1, 1]);
    expect(keyHeadIndex({ ...layers[0], groups: undefined, heads: [0, 1, 2, 3] }, 3, 2)).toBe(1);
  });

  it('are 0 for a query without allowed keys, and never overflow', () => {
    expect([...maskedSoftmax(Float64Array.of(1, 2), Uint8Array.of(0, 0))]).toEqual([0, 0]);
    expect([...maskedSoftmax(Float64Array.of(1e4, -1e4), Uint8Array.of(1, 1))]).toEqual([1, 0]);
  });

  it('are exact in the tooltip', async () => {
    const drawing = neurons.draw(await loadFrame(neurons, byHand(), { key: 0 }));
    const bars = drawing.marks.filter((mark) => mark.kind === 'rect' && mark.fill === 'card');
    const strip = bars[0] as { x: number; y: number; w: number; h: number };
    const target = drawing.targetAt?.(strip.x + strip.w * 0.75, strip.y + 3);
    expect(target?.tooltip?.()).toEqual([
      'element 1', 'q of “x”: 2.000000', 'k of “left”: 0', 'q × k: 0', 'sum so far: 3.000000']);
    expect(target?.overlay?.()).toHaveLength(4);
    expect(drawing.targetAt?.(strip.x - 5, strip.y)).toBeNull();
  });
});

describe('the remarks', () => {
  it('say that other mechanisms have no softmax', async () => {
    const drawing = neurons.draw(await loadFrame(neurons,
      byHand({ mechanism: 'elu', scale: null })));
    expect(drawingTexts(drawing).join(' ')).toContain('its weight is not a softmax of the scores');
    expect(drawingTexts(drawing).some((text) => text.startsWith('softmax'))).toBe(false);
    expect(drawing.summary).not.toContain('softmax');
  });

  it('say that the scores do not explain the weights, if so', async () => {
    const honest = neurons.draw(await loadFrame(neurons, byHand()));
    const capped = neurons.draw(await loadFrame(neurons, byHand({ scale: 0.7 })));
    expect(drawingTexts(honest).join(' ')).not.toContain('more than rounding explains');
    expect(drawingTexts(capped).join(' ')).toContain('more than rounding explains');
  });

  it('name the inputs that a mechanism does not use', async () => {
    const file = byHand({ mechanism: 'synthesizer', k: null });
    const drawing = neurons.draw(await loadFrame(neurons, file));
    expect(drawingTexts(drawing).join(' ')).toContain('synthesizer has no keys.');
    expect(drawingTexts(drawing)).not.toContain('score');
    expect(layoutProblems(drawing)).toEqual([]);
  });

  it('explain how to capture missing vectors', async () => {
    const blocks = new ArrayBlocks();
    const bare = makeLayer(blocks, [1, 2, 2], [1, 0, 0, 1]);
    const full = { ...bare, q: blocks.floats([1, 2, 3], pseudoRandom(6)) };
    const file = openCapture(blocks,
      [makeSide(blocks, [makeSequence('t', ['a', 'b'])], [bare, bare])]);
    const { choices } = await loadFrame(neurons, file);
    expect(neurons.missingReason(file, choices)).toContain('--neurons');
    const half = openCapture(blocks,
      [makeSide(blocks, [makeSequence('t', ['a', 'b'])], [bare, full])]);
    expect(neurons.missingReason(half, choices)).toContain('other layers only: 1');
    expect(neurons.missingReason(half, { ...choices, layer: 1 })).toBeNull();
    expect(neurons.layers?.(half, choices)).toEqual([1]);
  });
});

describe('choices', () => {
  it('default to the last word and the other word that it attends to most', async () => {
    const blocks = new ArrayBlocks();
    const weights = [0.9, 0.01, 0.06, 0.03];
    const one = makeLayer(blocks, [1, 4, 4], [0, 1, 2, 3].flatMap(() => weights), {
      q: blocks.floats([1, 4, 2], pseudoRandom(8)),
        k: blocks.floats([1, 4, 2], pseudoRandom(8, 9)) });
    const text = makeSequence('t', ['[CLS]', 'dog', 'ran', '.'], [0]);
    const file = openCapture(blocks, [makeSide(blocks, [text], [one])]);
    expect(neurons.draw(await loadFrame(neurons, file)).summary).toContain('from “ran” to “dog”');
    const far = await loadFrame(neurons, file, { queries: [99, 1], key: 99, heads: [7] });
    expect(neurons.draw(far).summary).toContain('from “dog” to “ran”');
  });

  it('can be changed to every query and every key', async () => {
    const { file } = capture(SHAPE, ALL);
    const { targets } = neurons.draw(await loadFrame(neurons, file, { heads: [2] }));
    const picks = targets.flatMap(({ pick }) => (pick ? [pick] : []));
    expect(picks).toEqual([
      ...[0, 1, 2, 3, 4, 5, 6].map((i) => ({ queries: [i] })),
      ...[0, 1, 2, 3, 4].map((key) => ({ key }))]);
    const tip = targets[targets.length - 1].tooltip?.() ?? [];
    const first = tip.map((each) => each.split(' ')[0]);
    expect(first).toEqual(['“f”', 'q', 'bias', 'score', 'softmax', 'weight']);
  });
});

describe('the drawing', () => {
  it('has a valid layout for any width and length', async () => {
    for (const [T, width] of [[1, 320], [2, 500], [40, 859], [40, 860], [400, 320], [700, 2560]]) {
      const blocks = new ArrayBlocks();
      const one = makeLayer(blocks, [1, T, T], pseudoRandom(T * T).map(Math.abs), {
        q: blocks.floats([1, T, 64], pseudoRandom(T * 64)),
          k: blocks.floats([1, T, 64], pseudoRandom(T * 64, 5)),
        v: blocks.floats([1, T, 64], pseudoRandom(T * 64, 6)) });
      const text = makeSequence('t', Array.from({ length: T }, (_, i) => `word${i}`));
      const file = openCapture(blocks, [makeSide(blocks, [text], [one])]);
      const drawing = neurons.draw(await loadFrame(neurons, file, {}, width));
      expect(layoutProblems(drawing)).toEqual([]);
      expect(drawing.height).toBeLessThan(5000);
    }
  });

  it('labels masked keys, and long runs of them once', async () => {
    const { file } = capture(SHAPE, ALL.map((_, i) => Number(i % 5 !== 3)));
    const drawing = neurons.draw(await loadFrame(neurons, file));
    expect(drawingTexts(drawing).filter((text) => text === 'masked')).toHaveLength(2); // score and weight
    expect(column(neurons.table(await loadFrame(neurons, file)), 'key', 'allowed'))
      .toEqual(['yes', 'yes', 'yes', 'no', 'yes']);
  });

  it('shows hostile and very long tokens as short text', async () => {
    const hostile = ['</script><script>alert(1)</script>', '\u0000\u202e\ud800', 'x'.repeat(10000)];
    const blocks = new ArrayBlocks();
    const one = makeLayer(blocks, [1, 3, 3], pseudoRandom(9), {
      q: blocks.floats([1, 3, 2], pseudoRandom(6)), k: blocks.floats([1, 3, 2], pseudoRandom(6)) });
    const file = openCapture(blocks, [makeSide(blocks, [makeSequence('t', hostile)], [one])]);
    for (const width of [320, 1280]) {
      const drawing = neurons.draw(await loadFrame(neurons, file, {}, width));
      for (const text of drawingTexts(drawing)) {
        expect(text.length).toBeLessThan(200);
        expect(text).not.toMatch(/[\u0000\u202e]/);
      }
      expect(layoutProblems(drawing)).toEqual([]);
    }
  });
});
