import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { DEFAULTS, type Choices } from './choices';
import { Blocks, header, layer, opened, sequence } from '../../test-support/made';
import {
  filter,
  items,
  merge,
  places,
  prepare,
  shade,
  shades,
  sinksOf,
  sumRows,
  withoutSinks,
} from './prepare';

const near = (values: ArrayLike<number>): number[] =>
  Array.from(values, (x) => Number(x.toFixed(5)));
const matrixOf = (rows: number, columns: number) =>
  fc
    .array(fc.float({ min: -1, max: 1, noNaN: true }), {
      minLength: rows * columns,
      maxLength: rows * columns,
    })
    .map((all) => Float32Array.from(all));

const TEXT = sequence(['[CLS]', 'want', '##ed', 'to', '[SEP]']);
TEXT.tokens[2].word = TEXT.tokens[1].word;

describe('words', () => {
  it('join sub-words that stand together', () => {
    expect(items(TEXT, true).map((item) => [item.text, item.tokens])).toEqual([
      ['[CLS]', [0]],
      ['wanted', [1, 2]],
      ['to', [3]],
      ['[SEP]', [4]],
    ]);
    expect(items(TEXT, false).length).toBe(5);
    expect(places(items(TEXT, true), [2, 4])).toEqual([1, 3]);
  });

  it('never join special tokens, or words apart', () => {
    const text = sequence(['[A]', '[B]', 'x', 'y', 'z']);
    text.tokens.forEach((token, i) => {
      token.word = [0, 0, 7, 8, 7][i];
    });
    expect(items(text, true).length).toBe(5);
    const none = sequence(['x', 'y', 'z']);
    none.tokens.forEach((token) => {
      token.word = -1;
    });
    expect(items(none, true).length).toBe(3);
  });

  it('get the sum over keys and the mean over queries', () => {
    const all = items(TEXT, true);
    const values = Float32Array.from([
      0.1, 0.2, 0.3, 0.4, 0, 0.2, 0.2, 0.2, 0.2, 0.2, 0, 0.6, 0, 0.4, 0, 0, 0, 0, 0, 1, 1, 0, 0, 0,
      0,
    ]);
    expect(near(merge(values, 5, all, all))).toEqual([
      0.1, 0.5, 0.4, 0, 0.1, 0.5, 0.3, 0.1, 0, 0, 0, 1, 1, 0, 0, 0,
    ]);
  });

  it('keep the sums of rows', () => {
    fc.assert(
      fc.property(matrixOf(5, 5), (values) => {
        const all = items(TEXT, true);
        const merged = merge(values, 5, all, all);
        const sum = (of: Float32Array, row: number, width: number): number =>
          of.slice(row * width, (row + 1) * width).reduce((a, b) => a + b, 0);
        expect(sum(merged, 0, 4)).toBeCloseTo(sum(values, 0, 5), 4);
        expect(sum(merged, 1, 4)).toBeCloseTo((sum(values, 1, 5) + sum(values, 2, 5)) / 2, 4);
      }),
    );
  });
});

describe('sinks', () => {
  it('are the first token and special ones behind it', () => {
    expect([...sinksOf(TEXT, { first: 'hide', separators: 'renormalize' })]).toEqual([
      1, 0, 0, 0, 2,
    ]);
    expect([...sinksOf(TEXT, { first: 'show', separators: 'hide' })]).toEqual([0, 0, 0, 0, 1]);
  });

  it('are hidden, or their share goes to the others', () => {
    const row = Float32Array.from([0.5, 0.1, 0.2, 0.2]);
    expect(near(withoutSinks(row, 4, Uint8Array.of(1, 0, 0, 0)))).toEqual([0, 0.1, 0.2, 0.2]);
    expect(near(withoutSinks(row, 4, Uint8Array.of(2, 0, 0, 0)))).toEqual([0, 0.2, 0.4, 0.4]);
    expect(near(withoutSinks(row, 4, Uint8Array.of(2, 0, 0, 1)))).toEqual([0, 0.26667, 0.53333, 0]);
    expect(near(withoutSinks(Float32Array.from([1, 0, 0]), 3, Uint8Array.of(2, 0, 0)))).toEqual([
      0, 0, 0,
    ]);
    expect(withoutSinks(row, 4, new Uint8Array(4))).toBe(row);
  });

  it('leave the absolute sum of a row as it was when renormalized', () => {
    fc.assert(
      fc.property(matrixOf(3, 5), (values) => {
        const out = withoutSinks(values, 5, Uint8Array.of(2, 0, 0, 0, 2));
        for (let row = 0; row < 3; row += 1) {
          const [before, after] = [values, out].map((of) =>
            of.slice(row * 5, row * 5 + 5).reduce((a, b) => a + Math.abs(b), 0),
          );
          const rest = values.slice(row * 5 + 1, row * 5 + 4).reduce((a, b) => a + Math.abs(b), 0);
          if (rest > 1e-3) expect(after).toBeCloseTo(before, 3);
        }
      }),
    );
  });
});

describe('threshold and top', () => {
  it('agree with sorting', () => {
    fc.assert(
      fc.property(
        matrixOf(3, 7),
        fc.integer({ min: 0, max: 8 }),
        fc.constantFrom(0, 0.3),
        (values, top, threshold) => {
          const out = filter(values, 7, threshold, top);
          for (let row = 0; row < 3; row += 1) {
            const cells = Array.from(values.slice(row * 7, row * 7 + 7), (x, i) => ({ x, i }));
            const best = [...cells]
              .sort((a, b) => Math.abs(b.x) - Math.abs(a.x) || a.i - b.i)
              .slice(0, top || 7)
              .map(({ i }) => i);
            const wanted = cells.map(({ x, i }) =>
              best.includes(i) && Math.abs(x) >= threshold ? x : 0,
            );
            expect(near(out.slice(row * 7, row * 7 + 7)).map(Math.abs)).toEqual(
              near(wanted).map(Math.abs),
            );
          }
        },
      ),
    );
  });
});

describe('scales', () => {
  it('are 0 at 0, 1 at the largest, and grow', () => {
    for (const scale of ['linear', 'sqrt', 'log'] as const) {
      expect([shade(0, scale), shade(1, scale), shade(7, scale), shade(NaN, scale)]).toEqual([
        0, 1, 1, 0,
      ]);
      expect(shade(0.2, scale)).toBeLessThan(shade(0.3, scale));
    }
    expect(shade(0.25, 'sqrt')).toBe(0.5);
    expect(shade(0.01, 'log')).toBeCloseTo(0.5, 10);
    expect(near(shades(Float32Array.from([-0.5, 0, 2, 9]), 2, 'sqrt'))).toEqual([-0.5, 0, 1, 1]);
    expect([...shades(Float32Array.from([1, 2]), 0, 'linear')]).toEqual([0, 0]);
  });
});

describe('all steps together', () => {
  const H = 2;
  const weights = [
    0.5, 0.1, 0.1, 0.1, 0.2, 0.2, 0.2, 0.2, 0.2, 0.2, 0, 0.6, 0, 0.4, 0, 0, 0, 0, 0, 1, 1, 0, 0, 0,
    0, 0.1, 0.3, 0.1, 0.3, 0.2, 0, 0, 1, 0, 0, 0.2, 0.2, 0.2, 0.2, 0.2, 0.5, 0, 0.5, 0, 0, 0, 1, 0,
    0, 0,
  ];
  const norms = [1, 2, 3, 4, 5, 0.5, 0.5, 2, 2, 1];
  const seen = async (some: Partial<Choices>) => {
    const blocks = new Blocks();
    const one = layer(blocks, weights, [H, 5, 5], { norms: blocks.floats(norms, [H, 5]) });
    return prepare(await opened(header(blocks, [TEXT], [one]), blocks), { ...DEFAULTS, ...some });
  };

  it('is the weights themselves with nothing chosen', async () => {
    const plain = await seen({});
    expect(plain.heads).toEqual([0, 1]);
    expect(near(plain.matrix(1))).toEqual(weights.slice(25));
    expect(near(plain.mean())).toEqual(
      near(weights.slice(0, 25).map((x, i) => (x + weights[25 + i]) / 2)),
    );
    expect(plain.changed).toEqual([]);
    expect(plain.mean()).toBe(plain.mean());
  });

  it('takes the mean of weighted heads, not the weighted mean', async () => {
    const weighted = await seen({ weighting: 'norms' });
    const slow = Array.from(
      { length: 25 },
      (_, i) => (weights[i] * norms[i % 5] + weights[25 + i] * norms[5 + (i % 5)]) / 2,
    );
    expect(near(weighted.mean())).toEqual(near(slow));
  });

  it('hides, merges and cuts in that order', async () => {
    const all = await seen({
      heads: [0],
      first: 'hide',
      separators: 'renormalize',
      words: true,
      top: 1,
    });
    // row 0: 0.1 0.1 0.1 share 0.5 - 0.2 ... : (0.3 + 0.2) / 0.3 each, the word gets two of them
    expect(near(all.matrix(0)).slice(0, 4)).toEqual([0, near([0.2 * (0.5 / 0.3)])[0], 0, 0]);
    expect(all.hidden).toEqual([true, false, false, true]);
    expect(all.queries.length).toBe(4);
    expect(all.changed.length).toBe(4);
    expect(all.bound([0], 0, 1)).toBeNaN();
  });

  it('gives one row, a sum of rows and a cell as the matrix has them', async () => {
    const sink = fc.constantFrom('show' as const, 'hide' as const, 'renormalize' as const);
    const some = fc.record({
      first: sink,
      separators: sink,
      words: fc.boolean(),
      threshold: fc.constantFrom(0, 0.15),
      top: fc.integer({ min: 0, max: 5 }),
      weighting: fc.constantFrom('weights' as const, 'norms' as const),
      heads: fc.constantFrom<number[]>([], [0], [1]),
    });
    await fc.assert(
      fc.asyncProperty(some, async (choices) => {
        const one = await seen(choices);
        const [wide, matrix] = [one.keys.length, one.mean()];
        expect(matrix.length).toBe(one.queries.length * wide);
        one.queries.forEach((_, q) => {
          const row = matrix.slice(q * wide, (q + 1) * wide);
          expect(near(one.row(one.heads, q))).toEqual(near(row));
          expect(one.cell(one.heads, q, 1)).toBeCloseTo(row[1], 6);
        });
        expect(near(one.sum(one.heads, [1, 2]))).toEqual(near(sumRows(matrix, wide, [1, 2])));
        if (one.plain) return;
        // step by step over whole matrices
        const raw = await seen({ heads: choices.heads, weighting: choices.weighting });
        const hidden = withoutSinks(raw.mean(), 5, sinksOf(TEXT, choices));
        const merged = choices.words ? merge(hidden, 5, one.queries, one.keys) : hidden;
        expect(near(matrix)).toEqual(near(filter(merged, wide, choices.threshold, choices.top)));
      }),
      { numRuns: 40 },
    );
  });

  it('sums selected queries', async () => {
    const plain = await seen({ heads: [0] });
    expect(near(sumRows(plain.matrix(0), 5, [1, 2]))).toEqual([0.2, 0.8, 0.2, 0.6, 0.2]);
  });
});
