import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Opened } from '../capture';
import { align } from './align';
import {
  changeOf,
  distance,
  distributions,
  likeness,
  ranking,
  rankingNeeds,
  smallDistance,
} from './change';
import { corresponds, counterpart } from './counterpart';
import { Blocks, layer, opened, sequence, shares, side } from '../../../test-support/fake';

// Half the sum of absolute differences, in float64, over tokens written out; what one side has
// alone is one key.
function slow(
  a: Float32Array,
  first: string[],
  b: Float32Array,
  second: string[],
  head: number,
): number {
  const { left, right } = align(
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

async function both(
  first: string[],
  second: string[],
  heads = 3,
  layers = 2,
): Promise<[Opened, Float32Array[][]]> {
  const blocks = new Blocks();
  const values: Float32Array[][] = [];
  const sides = [first, second].map((texts, s) => {
    values.push(
      Array.from({ length: layers }, (_, l) =>
        shares(heads, texts.length, texts.length, 7 + 31 * s + l),
      ),
    );
    return side(
      blocks,
      [sequence('t', texts)],
      values[s].map((each) => layer(blocks, [heads, texts.length, texts.length], each)),
      { label: `side ${s}` },
    );
  });
  const capture = opened(blocks, sides);
  await capture.load(rankingNeeds(capture, 0));
  return [capture, values];
}

describe('the change of a head', () => {
  it('is the mean total variation distance, a value by hand', async () => {
    const blocks = new Blocks();
    const sides = [
      [0.5, 0.5, 1, 0],
      [0.75, 0.25, 0, 1],
    ].map((weights) =>
      side(blocks, [sequence('t', ['a', 'b'])], [layer(blocks, [1, 2, 2], weights)]),
    );
    const capture = opened(blocks, sides);
    await capture.load(rankingNeeds(capture, 0));
    expect(changeOf(capture, 0, 0, 0, 0, 0)).toBeCloseTo((0.25 + 1) / 2, 6);
  });

  it('equals the definition for any two texts, from either side', async () => {
    const texts = fc.array(fc.constantFrom('a', 'b', 'c'), { minLength: 2, maxLength: 7 });
    await fc.assert(
      fc.asyncProperty(texts, texts, async (first, second) => {
        fc.pre(first.some((text) => second.includes(text)));
        const [capture, values] = await both(first, second);
        for (const head of [0, 2]) {
          const change = changeOf(capture, 0, 1, head, 1, head);
          expect(change).toBeCloseTo(slow(values[0][1], first, values[1][1], second, head), 5);
          expect(changeOf(capture, 1, 1, head, 1, head)).toBeGreaterThanOrEqual(0);
        }
      }),
      { numRuns: 30 },
    );
  });

  it('is 0 for the same, 1 at most for signed rows, and finite for empty ones', async () => {
    const blocks = new Blocks();
    const more = { signed: true, normalised: false };
    const weights = [
      [3, -2, 0, 0],
      [3, -2, 0, 0],
      [-3, 2, 5, 1],
    ];
    const layers = weights.map((each) => layer(blocks, [1, 2, 2], each, more));
    const two = (a: number, b: number): Opened =>
      opened(
        blocks,
        [a, b].map((i) => side(blocks, [sequence('t', ['a', 'b'])], [layers[i]])),
      );
    const same = two(0, 1);
    await same.load(rankingNeeds(same, 0));
    expect(changeOf(same, 0, 0, 0, 0, 0)).toBe(0);
    const other = two(0, 2);
    await other.load(rankingNeeds(other, 0));
    expect(changeOf(other, 0, 0, 0, 0, 0)).toBe(1);
  });

  it('can be read from some of the rows', async () => {
    const texts = Array.from({ length: 11 }, (_, i) => `${i}`);
    const [capture] = await both(texts, texts);
    const [a, b] = [capture.weights(0, 0), capture.weights(1, 0)];
    const all = align(
      texts.map((text) => ({ text })),
      texts.map((text) => ({ text })),
    );
    const row = (i: number): number =>
      distance(a, 0, b, 0, { ...all, left: Int32Array.of(i), right: Int32Array.of(i) }, all);
    expect(distance(a, 0, b, 0, all, all, 3)).toBeCloseTo((row(1) + row(5) + row(9)) / 3, 6);
  });
});

describe('small maps', () => {
  it('are distributions by row, stretched to one size', () => {
    const rows = distributions(Float32Array.of(1, 3, 0, 0), 1, 2, 4);
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

  it('differ by what their rows differ, empty ones aside', () => {
    const first = distributions(Float32Array.of(1, 0, 0, 0), 1, 2, 2);
    const second = distributions(Float32Array.of(1, 1, 0, 0), 1, 2, 2);
    expect(smallDistance(first, 0, second, 0, 2)).toBe(0.5);
    expect(smallDistance(first, 0, first, 0, 2)).toBe(0);
  });
});

describe('the ranking', () => {
  it('has every head once, the largest change first, and is exact where all is open', async () => {
    const [capture] = await both(['a', 'b', 'c'], ['a', 'x', 'c', 'd']);
    const { changes, exact, how } = ranking(capture, 0);
    expect(changes.map(({ layer: l, head }) => `${l} ${head}`).sort()).toEqual([
      '0 0',
      '0 1',
      '0 2',
      '1 0',
      '1 1',
      '1 2',
    ]);
    changes.forEach((each, i) => {
      expect(each.change).toBe(
        changeOf(capture, 0, each.layer, each.head, each.otherLayer, each.otherHead),
      );
      if (i > 0) expect(each.change).toBeLessThanOrEqual(changes[i - 1].change);
    });
    expect(exact).toBe(true);
    expect(how).toContain('total variation');
  });

  it('comes from the small maps, squared, before the weights are open', async () => {
    const blocks = new Blocks();
    const maps = [
      [255, 0, 0, 255, 255, 0, 0, 255],
      [255, 0, 0, 255, 128, 128, 255, 0],
    ];
    const sides = maps.map((bytes) =>
      side(
        blocks,
        [sequence('t', ['a', 'b'])],
        [layer(blocks, [2, 2, 2], new Float32Array(8).fill(0.5))],
        { small: blocks.bytes([2, 2, 2], bytes) },
      ),
    );
    const capture = opened(blocks, sides);
    await capture.load([
      { side: 0, small: true },
      { side: 1, small: true },
    ]);
    const { changes, exact, how } = ranking(capture, 0);
    expect(exact).toBe(false);
    expect(how).toContain('estimated');
    expect(changes.map(({ head, change }) => [head, change])).toEqual([
      [1, 0.75],
      [0, 0],
    ]);
    expect(likeness(capture, 0, 0, 0)).toEqual([[0, 0.75]]);
    await capture.load(rankingNeeds(capture, 0));
    expect(ranking(capture, 0).exact).toBe(true);
  });
});

describe('counterparts', () => {
  const shaped = (layers: ('self' | 'cross')[], heads: number) => {
    const blocks = new Blocks();
    return side(
      blocks,
      [sequence('t', ['a'])],
      layers.map((kind) => layer(blocks, [heads, 1, 1], new Float32Array(heads).fill(1), { kind })),
    );
  };

  it('are the same heads where models have one shape', () => {
    const [one, other] = [shaped(['self', 'cross'], 3), shaped(['self', 'cross'], 3)];
    expect(corresponds(one, other)).toBe(true);
    expect(counterpart(one, other, 1, 2)).toEqual({ layer: 1, head: 2 });
  });

  it('are at the same share of the depth where they have not', () => {
    const [one, other] = [shaped(Array(5).fill('self'), 4), shaped(Array(3).fill('self'), 7)];
    expect(corresponds(one, other)).toBe(false);
    expect([0, 1, 2, 3, 4].map((l) => counterpart(one, other, l, 0).layer)).toEqual([
      0, 1, 1, 2, 2,
    ]);
    expect([0, 1, 2, 3].map((head) => counterpart(one, other, 0, head).head)).toEqual([0, 2, 4, 6]);
    expect(counterpart(shaped(['self'], 1), other, 0, 0)).toEqual({ layer: 0, head: 0 });
  });

  it('are of the same kind where there is one', () => {
    const one = shaped(['self', 'cross', 'self', 'cross'], 2);
    expect(counterpart(one, shaped(['self', 'self', 'cross'], 2), 3, 0).layer).toBe(2);
    expect(counterpart(one, shaped(['self', 'self', 'self'], 2), 3, 0).layer).toBe(2);
  });
});
