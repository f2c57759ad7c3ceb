import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { DEFAULTS, type Choices } from './choices';
import {
  ArrayBlocks,
  makeHeader,
  makeLayer,
  openCapture,
  makeSequence,
} from '../../test-support/file-captures';
import {
  applyCutoffs,
  toItems,
  mergeWords,
  itemIndices,
  prepareWeights,
  colorStrength,
  colorStrengths,
  sinkModes,
  sumRows,
  withoutSinks,
} from './prepare-weights';

const roundAll = (values: ArrayLike<number>): number[] =>
  Array.from(values, (x) => Number(x.toFixed(5)));
const randomMatrix = (rows: number, columns: number) =>
  fc
    .array(fc.float({ min: -1, max: 1, noNaN: true }), {
      minLength: rows * columns,
      maxLength: rows * columns,
    })
    .map((all) => Float32Array.from(all));

const TEXT = makeSequence(['[CLS]', 'want', '##ed', 'to', '[SEP]']);
TEXT.tokens[2].word = TEXT.tokens[1].word;

describe('words', () => {
  it('join adjacent subwords', () => {
    expect(toItems(TEXT, true).map((item) => [item.text, item.tokens])).toEqual([
      ['[CLS]', [0]],
      ['wanted', [1, 2]],
      ['to', [3]],
      ['[SEP]', [4]],
    ]);
    expect(toItems(TEXT, false).length).toBe(5);
    expect(itemIndices(toItems(TEXT, true), [2, 4])).toEqual([1, 3]);
  });

  it('never join special tokens, or subwords that are not adjacent', () => {
    const text = makeSequence(['[A]', '[B]', 'x', 'y', 'z']);
    text.tokens.forEach((token, i) => {
      token.word = [0, 0, 7, 8, 7][i];
    });
    expect(toItems(text, true).length).toBe(5);
    const none = makeSequence(['x', 'y', 'z']);
    none.tokens.forEach((token) => {
      token.word = -1;
    });
    expect(toItems(none, true).length).toBe(3);
  });

  it('get the sum over their keys and the mean over their queries', () => {
    const all = toItems(TEXT, true);
    const values = Float32Array.from([
      0.1, 0.2, 0.3, 0.4, 0, 0.2, 0.2, 0.2, 0.2, 0.2, 0, 0.6, 0, 0.4, 0, 0, 0, 0, 0, 1, 1, 0, 0, 0,
      0,
    ]);
    expect(roundAll(mergeWords(values, 5, all, all))).toEqual([
      0.1, 0.5, 0.4, 0, 0.1, 0.5, 0.3, 0.1, 0, 0, 0, 1, 1, 0, 0, 0,
    ]);
  });

  it('keep the row sums', () => {
    fc.assert(
      fc.property(randomMatrix(5, 5), (values) => {
        const all = toItems(TEXT, true);
        const merged = mergeWords(values, 5, all, all);
        const sum = (of: Float32Array, row: number, width: number): number =>
          of.slice(row * width, (row + 1) * width).reduce((a, b) => a + b, 0);
        expect(sum(merged, 0, 4)).toBeCloseTo(sum(values, 0, 5), 4);
        expect(sum(merged, 1, 4)).toBeCloseTo((sum(values, 1, 5) + sum(values, 2, 5)) / 2, 4);
      }),
    );
  });
});

describe('sinks', () => {
  it('are the first token and later special tokens', () => {
    expect([...sinkModes(TEXT, { first: 'hide', separators: 'renormalize' })]).toEqual([
      1, 0, 0, 0, 2,
    ]);
    expect([...sinkModes(TEXT, { first: 'show', separators: 'hide' })]).toEqual([0, 0, 0, 0, 1]);
  });

  it('are hidden, or their weight goes to the other keys', () => {
    const row = Float32Array.from([0.5, 0.1, 0.2, 0.2]);
    expect(roundAll(withoutSinks(row, 4, Uint8Array.of(1, 0, 0, 0)))).toEqual([0, 0.1, 0.2, 0.2]);
    expect(roundAll(withoutSinks(row, 4, Uint8Array.of(2, 0, 0, 0)))).toEqual([0, 0.2, 0.4, 0.4]);
    expect(roundAll(withoutSinks(row, 4, Uint8Array.of(2, 0, 0, 1)))).toEqual([
      0, 0.26667, 0.53333, 0,
    ]);
    expect(roundAll(withoutSinks(Float32Array.from([1, 0, 0]), 3, Uint8Array.of(2, 0, 0)))).toEqual(
      [0, 0, 0],
    );
    expect(withoutSinks(row, 4, new Uint8Array(4))).toBe(row);
  });

  it('keep the absolute row sum when renormalized', () => {
    fc.assert(
      fc.property(randomMatrix(3, 5), (values) => {
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
  it('agree with a sort', () => {
    fc.assert(
      fc.property(
        randomMatrix(3, 7),
        fc.integer({ min: 0, max: 8 }),
        fc.constantFrom(0, 0.3),
        (values, top, threshold) => {
          const out = applyCutoffs(values, 7, threshold, top);
          for (let row = 0; row < 3; row += 1) {
            const cells = Array.from(values.slice(row * 7, row * 7 + 7), (x, i) => ({ x, i }));
            const best = [...cells]
              .sort((a, b) => Math.abs(b.x) - Math.abs(a.x) || a.i - b.i)
              .slice(0, top || 7)
              .map(({ i }) => i);
            const expected = cells.map(({ x, i }) =>
              best.includes(i) && Math.abs(x) >= threshold ? x : 0,
            );
            expect(roundAll(out.slice(row * 7, row * 7 + 7)).map(Math.abs)).toEqual(
              roundAll(expected).map(Math.abs),
            );
          }
        },
      ),
    );
  });
});

describe('scales', () => {
  it('are 0 at 0, 1 at the largest value, and increase', () => {
    for (const scale of ['linear', 'sqrt', 'log'] as const) {
      expect([
        colorStrength(0, scale),
        colorStrength(1, scale),
        colorStrength(7, scale),
        colorStrength(NaN, scale),
      ]).toEqual([0, 1, 1, 0]);
      expect(colorStrength(0.2, scale)).toBeLessThan(colorStrength(0.3, scale));
    }
    expect(colorStrength(0.25, 'sqrt')).toBe(0.5);
    expect(colorStrength(0.01, 'log')).toBeCloseTo(0.5, 10);
    expect(roundAll(colorStrengths(Float32Array.from([-0.5, 0, 2, 9]), 2, 'sqrt'))).toEqual([
      -0.5, 0, 1, 1,
    ]);
    expect([...colorStrengths(Float32Array.from([1, 2]), 0, 'linear')]).toEqual([0, 0]);
  });
});

describe('prepared weights', () => {
  const H = 2;
  const weights = [
    0.5, 0.1, 0.1, 0.1, 0.2, 0.2, 0.2, 0.2, 0.2, 0.2, 0, 0.6, 0, 0.4, 0, 0, 0, 0, 0, 1, 1, 0, 0, 0,
    0, 0.1, 0.3, 0.1, 0.3, 0.2, 0, 0, 1, 0, 0, 0.2, 0.2, 0.2, 0.2, 0.2, 0.5, 0, 0.5, 0, 0, 0, 1, 0,
    0, 0,
  ];
  const norms = [1, 2, 3, 4, 5, 0.5, 0.5, 2, 2, 1];
  const preparedWith = async (choices: Partial<Choices>) => {
    const blocks = new ArrayBlocks();
    const layer = makeLayer(blocks, weights, [H, 5, 5], { norms: blocks.floats(norms, [H, 5]) });
    return prepareWeights(await openCapture(makeHeader(blocks, [TEXT], [layer]), blocks), {
      ...DEFAULTS,
      ...choices,
    });
  };

  it('are the captured weights by default', async () => {
    const plain = await preparedWith({});
    expect(plain.heads).toEqual([0, 1]);
    expect(roundAll(plain.matrix(1))).toEqual(weights.slice(25));
    expect(roundAll(plain.mean())).toEqual(
      roundAll(weights.slice(0, 25).map((x, i) => (x + weights[25 + i]) / 2)),
    );
    expect(plain.adjustments).toEqual([]);
    expect(plain.mean()).toBe(plain.mean());
  });

  it('weight each head before taking the mean', async () => {
    const weighted = await preparedWith({ weighting: 'norms' });
    const expectedMean = Array.from(
      { length: 25 },
      (_, i) => (weights[i] * norms[i % 5] + weights[25 + i] * norms[5 + (i % 5)]) / 2,
    );
    expect(roundAll(weighted.mean())).toEqual(roundAll(expectedMean));
  });

  it('hide sinks, merge words and apply the cutoffs, in this order', async () => {
    const prepared = await preparedWith({
      heads: [0],
      first: 'hide',
      separators: 'renormalize',
      words: true,
      top: 1,
    });
    // row 0: the keys with 0.1 each take over the weight 0.2: each times (0.3 + 0.2) / 0.3; the word has two
    expect(roundAll(prepared.matrix(0)).slice(0, 4)).toEqual([
      0,
      roundAll([0.2 * (0.5 / 0.3)])[0],
      0,
      0,
    ]);
    expect(prepared.hidden).toEqual([true, false, false, true]);
    expect(prepared.queries.length).toBe(4);
    expect(prepared.adjustments.length).toBe(4);
    expect(prepared.errorBound([0], 0, 1)).toBeNaN();
  });

  it('give the same numbers by row, by sum of rows, by cell and as a matrix', async () => {
    const sink = fc.constantFrom('show' as const, 'hide' as const, 'renormalize' as const);
    const choiceSets = fc.record({
      first: sink,
      separators: sink,
      words: fc.boolean(),
      threshold: fc.constantFrom(0, 0.15),
      top: fc.integer({ min: 0, max: 5 }),
      weighting: fc.constantFrom('weights' as const, 'norms' as const),
      heads: fc.constantFrom<number[]>([], [0], [1]),
    });
    await fc.assert(
      fc.asyncProperty(choiceSets, async (choices) => {
        const prepared = await preparedWith(choices);
        const [columns, matrix] = [prepared.keys.length, prepared.mean()];
        expect(matrix.length).toBe(prepared.queries.length * columns);
        prepared.queries.forEach((_, q) => {
          const row = matrix.slice(q * columns, (q + 1) * columns);
          expect(roundAll(prepared.row(prepared.heads, q))).toEqual(roundAll(row));
          expect(prepared.cell(prepared.heads, q, 1)).toBeCloseTo(row[1], 6);
        });
        expect(roundAll(prepared.sum(prepared.heads, [1, 2]))).toEqual(
          roundAll(sumRows(matrix, columns, [1, 2])),
        );
        if (prepared.unchanged) return;
        // the same steps on whole matrices
        const raw = await preparedWith({ heads: choices.heads, weighting: choices.weighting });
        const hidden = withoutSinks(raw.mean(), 5, sinkModes(TEXT, choices));
        const merged = choices.words
          ? mergeWords(hidden, 5, prepared.queries, prepared.keys)
          : hidden;
        expect(roundAll(matrix)).toEqual(
          roundAll(applyCutoffs(merged, columns, choices.threshold, choices.top)),
        );
      }),
      { numRuns: 40 },
    );
  });

  it('sum the selected queries', async () => {
    const plain = await preparedWith({ heads: [0] });
    expect(roundAll(sumRows(plain.matrix(0), 5, [1, 2]))).toEqual([0.2, 0.8, 0.2, 0.6, 0.2]);
  });
});
