import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Capture } from '../capture';
import { alignTokens } from './align-tokens';
import {
  changeBetween,
  headDistance,
  toDistributions,
  distancesToOtherHeads,
  rankHeads,
  rankingNeeds,
  mapDistance,
} from './head-change';
import { haveSameShape, correspondingHead } from './corresponding-head';
import {
  ArrayBlocks,
  makeLayer,
  openCapture,
  makeSequence,
  randomWeights,
  makeSide,
} from '../../../test-support/view-captures';

// The definition in float64: half the sum of absolute differences. Tokens of one side only count as
// one further key.
function expectedChange(
  a: Float32Array,
  first: string[],
  b: Float32Array,
  second: string[],
  head: number,
): number {
  const { left, right } = alignTokens(
    first.map((text) => ({ text })),
    second.map((text) => ({ text })),
  );
  const row = (values: Float32Array, texts: string[], query: number): number[] =>
    Array.from(
      values.slice(
        (head * texts.length + query) * texts.length,
        (head * texts.length + query + 1) * texts.length,
      ),
    );
  let total = 0;
  left.forEach((query, i) => {
    const [p, q] = [row(a, first, query), row(b, second, right[i])];
    const pair: [number, number][] = Array.from(left, (key, j) => [p[key], q[right[j]]]);
    const rest = [
      p.filter((_, key) => !left.includes(key)),
      q.filter((_, key) => !right.includes(key)),
    ].map((values) => values.reduce((sum, value) => sum + value, 0));
    total += [...pair, rest].reduce((sum, [x, y]) => sum + Math.abs(x - y), 0) / 2;
  });
  return total / left.length;
}

async function makeCapture(
  first: string[],
  second: string[],
  heads = 3,
  layers = 2,
): Promise<[Capture, Float32Array[][]]> {
  const blocks = new ArrayBlocks();
  const values: Float32Array[][] = [];
  const panels = [first, second].map((texts, s) => {
    values.push(
      Array.from({ length: layers }, (_, l) =>
        randomWeights(heads, texts.length, texts.length, 7 + 31 * s + l),
      ),
    );
    return makeSide(
      blocks,
      [makeSequence('t', texts)],
      values[s].map((each) => makeLayer(blocks, [heads, texts.length, texts.length], each)),
      { label: `side ${s}` },
    );
  });
  const capture = openCapture(blocks, panels);
  await capture.load(rankingNeeds(capture, 0));
  return [capture, values];
}

describe('the change of a head', () => {
  it('is the mean total variation distance of an example by hand', async () => {
    const blocks = new ArrayBlocks();
    const panels = [
      [0.5, 0.5, 1, 0],
      [0.75, 0.25, 0, 1],
    ].map((weights) =>
      makeSide(blocks, [makeSequence('t', ['a', 'b'])], [makeLayer(blocks, [1, 2, 2], weights)]),
    );
    const capture = openCapture(blocks, panels);
    await capture.load(rankingNeeds(capture, 0));
    expect(changeBetween(capture, 0, 0, 0, 0, 0)).toBeCloseTo((0.25 + 1) / 2, 6);
  });

  it('equals the definition for any two texts, from either side', async () => {
    const texts = fc.array(fc.constantFrom('a', 'b', 'c'), { minLength: 2, maxLength: 7 });
    await fc.assert(
      fc.asyncProperty(texts, texts, async (first, second) => {
        fc.pre(first.some((text) => second.includes(text)));
        const [capture, values] = await makeCapture(first, second);
        for (const head of [0, 2]) {
          const change = changeBetween(capture, 0, 1, head, 1, head);
          expect(change).toBeCloseTo(
            expectedChange(values[0][1], first, values[1][1], second, head),
            5,
          );
          expect(changeBetween(capture, 1, 1, head, 1, head)).toBeGreaterThanOrEqual(0);
        }
      }),
      { numRuns: 30 },
    );
  });

  it('is 0 for equal heads, at most 1 for signed rows, and finite for empty rows', async () => {
    const blocks = new ArrayBlocks();
    const options = { signed: true, normalised: false };
    const weights = [
      [3, -2, 0, 0],
      [3, -2, 0, 0],
      [-3, 2, 5, 1],
    ];
    const layers = weights.map((each) => makeLayer(blocks, [1, 2, 2], each, options));
    const captureOf = (a: number, b: number): Capture =>
      openCapture(
        blocks,
        [a, b].map((i) => makeSide(blocks, [makeSequence('t', ['a', 'b'])], [layers[i]])),
      );
    const same = captureOf(0, 1);
    await same.load(rankingNeeds(same, 0));
    expect(changeBetween(same, 0, 0, 0, 0, 0)).toBe(0);
    const other = captureOf(0, 2);
    await other.load(rankingNeeds(other, 0));
    expect(changeBetween(other, 0, 0, 0, 0, 0)).toBe(1);
  });

  it('can be estimated from some of the rows', async () => {
    const texts = Array.from({ length: 11 }, (_, i) => `${i}`);
    const [capture] = await makeCapture(texts, texts);
    const [a, b] = [capture.weights(0, 0), capture.weights(1, 0)];
    const all = alignTokens(
      texts.map((text) => ({ text })),
      texts.map((text) => ({ text })),
    );
    const row = (i: number): number =>
      headDistance(a, 0, b, 0, { ...all, left: Int32Array.of(i), right: Int32Array.of(i) }, all);
    expect(headDistance(a, 0, b, 0, all, all, 3)).toBeCloseTo((row(1) + row(5) + row(9)) / 3, 6);
  });
});

describe('small maps', () => {
  it('become one distribution per row, resized to one size', () => {
    const rows = toDistributions(Float32Array.of(1, 3, 0, 0), 1, 2, 4);
    expect([...rows]).toEqual([
      ...[0, 1].flatMap(() => [0.125, 0.125, 0.375, 0.375]),
      0,
      0,
      0,
      0,
      0,
      0,
      0,
      0,
    ]);
  });

  it('differ by the mean distance of their rows, without empty rows', () => {
    const first = toDistributions(Float32Array.of(1, 0, 0, 0), 1, 2, 2);
    const second = toDistributions(Float32Array.of(1, 1, 0, 0), 1, 2, 2);
    expect(mapDistance(first, 0, second, 0, 2)).toBe(0.5);
    expect(mapDistance(first, 0, first, 0, 2)).toBe(0);
  });
});

describe('the ranking', () => {
  it('has every head once, the largest change first, and is exact if all weights are loaded', async () => {
    const [capture] = await makeCapture(['a', 'b', 'c'], ['a', 'x', 'c', 'd']);
    const { changes, exact, explanation } = rankHeads(capture, 0);
    expect(changes.map(({ layer: l, head }) => `${l} ${head}`).sort()).toEqual([
      '0 0',
      '0 1',
      '0 2',
      '1 0',
      '1 1',
      '1 2',
    ]);
    changes.forEach((change, i) => {
      expect(change.change).toBe(
        changeBetween(capture, 0, change.layer, change.head, change.otherLayer, change.otherHead),
      );
      if (i > 0) expect(change.change).toBeLessThanOrEqual(changes[i - 1].change);
    });
    expect(exact).toBe(true);
    expect(explanation).toContain('total variation');
  });

  it('is estimated from the small maps before the weights are loaded', async () => {
    const blocks = new ArrayBlocks();
    const maps = [
      [255, 0, 0, 255, 255, 0, 0, 255],
      [255, 0, 0, 255, 128, 128, 255, 0],
    ];
    const panels = maps.map((bytes) =>
      makeSide(
        blocks,
        [makeSequence('t', ['a', 'b'])],
        [makeLayer(blocks, [2, 2, 2], new Float32Array(8).fill(0.5))],
        { small: blocks.bytes([2, 2, 2], bytes) },
      ),
    );
    const capture = openCapture(blocks, panels);
    await capture.load([
      { side: 0, small: true },
      { side: 1, small: true },
    ]);
    const { changes, exact, explanation } = rankHeads(capture, 0);
    expect(exact).toBe(false);
    expect(explanation).toContain('estimated');
    expect(changes.map(({ head, change }) => [head, change])).toEqual([
      [1, 0.75],
      [0, 0],
    ]);
    expect(distancesToOtherHeads(capture, 0, 0, 0)).toEqual([[0, 0.75]]);
    await capture.load(rankingNeeds(capture, 0));
    expect(rankHeads(capture, 0).exact).toBe(true);
  });
});

describe('corresponding heads', () => {
  const makeShape = (layers: ('self' | 'cross')[], heads: number) => {
    const blocks = new ArrayBlocks();
    return makeSide(
      blocks,
      [makeSequence('t', ['a'])],
      layers.map((kind) =>
        makeLayer(blocks, [heads, 1, 1], new Float32Array(heads).fill(1), { kind }),
      ),
    );
  };

  it('have the same indices in models of one shape', () => {
    const [one, other] = [makeShape(['self', 'cross'], 3), makeShape(['self', 'cross'], 3)];
    expect(haveSameShape(one, other)).toBe(true);
    expect(correspondingHead(one, other, 1, 2)).toEqual({ layer: 1, head: 2 });
  });

  it('are at the same relative depth in models of different shapes', () => {
    const [one, other] = [makeShape(Array(5).fill('self'), 4), makeShape(Array(3).fill('self'), 7)];
    expect(haveSameShape(one, other)).toBe(false);
    expect([0, 1, 2, 3, 4].map((l) => correspondingHead(one, other, l, 0).layer)).toEqual([
      0, 1, 1, 2, 2,
    ]);
    expect([0, 1, 2, 3].map((head) => correspondingHead(one, other, 0, head).head)).toEqual([
      0, 2, 4, 6,
    ]);
    expect(correspondingHead(makeShape(['self'], 1), other, 0, 0)).toEqual({ layer: 0, head: 0 });
  });

  it('are of the same kind if there is one', () => {
    const one = makeShape(['self', 'cross', 'self', 'cross'], 2);
    expect(correspondingHead(one, makeShape(['self', 'self', 'cross'], 2), 3, 0).layer).toBe(2);
    expect(correspondingHead(one, makeShape(['self', 'self', 'self'], 2), 3, 0).layer).toBe(2);
  });
});
