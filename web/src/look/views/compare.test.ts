import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Capture } from '../capture';
import { DEFAULTS } from '../choices';
import type { Mark } from '../view';
import { rankHeads } from './head-change';
import { compare } from './compare';
import { poolMatrix } from './heatmap-panel';
import {
  ArrayBlocks,
  loadFrame,
  makeLayer,
  openCapture,
  layoutProblems,
  makeSequence,
  randomWeights,
  makeSide,
  drawingTexts,
} from '../../../test-support/view-captures';

const PARK = 'I was going to play at the park .'.split(' ');
const PLAY = 'I was going to a play in the park .'.split(' ');

function capture(
  first: string[],
  second: string[],
  shapes: [number, number][] = [
    [3, 2],
    [3, 2],
  ],
): Capture {
  const blocks = new ArrayBlocks();
  const panels = [first, second].map((words, s) => {
    const [heads, layers] = shapes[s];
    const all = Array.from({ length: layers }, (_, l) =>
      makeLayer(
        blocks,
        [heads, words.length, words.length],
        randomWeights(heads, words.length, words.length, 5 + 31 * s + l),
      ),
    );
    return makeSide(blocks, [makeSequence('t', words)], all, {
      label: ['trained', 'untrained'][s],
    });
  });
  return openCapture(blocks, panels);
}

const rasters = (marks: Mark[]) =>
  marks.flatMap((mark) => (mark.kind === 'raster' && mark.rows > 1 ? [mark] : []));

describe('comparing', () => {
  it('needs a capture with two sides', () => {
    const blocks = new ArrayBlocks();
    const one = openCapture(blocks, [
      makeSide(blocks, [makeSequence('t', ['a'])], [makeLayer(blocks, [1, 1, 1], [1])]),
    ]);
    expect(compare.missingReason(one, DEFAULTS)).toContain('--untrained');
    expect(compare.missingReason(capture(PARK, PLAY), DEFAULTS)).toBeNull();
  });

  it('shows both maps in one scale and the signed difference', async () => {
    const frame = await loadFrame(compare, capture(PARK, PARK), { layer: 1, heads: [2] });
    const drawing = compare.draw(frame);
    expect(layoutProblems(drawing)).toEqual([]);
    const [left, right, difference] = rasters(drawing.marks);
    expect([left.signed, right.signed, difference.signed]).toEqual([false, false, true]);
    const [a, b] = [frame.capture.weights(0, 1).head(2), frame.capture.weights(1, 1).head(2)];
    const largest = Math.max(...a, ...b);
    const largestDifference = Math.max(...a.map((value, i) => Math.abs(b[i] - value)));
    expect(left.values[7]).toBeCloseTo(a[7] / largest, 5);
    expect(right.values[7]).toBeCloseTo(b[7] / largest, 5);
    expect(difference.values[7]).toBeCloseTo((b[7] - a[7]) / largestDifference, 5);
    expect(drawingTexts(drawing)).toContain('trained: layer 1, head 2');
    expect(drawingTexts(drawing)).toContain('Difference: the second map minus the first');
    expect(drawing.summary).toMatch(/^Layer 1, head 2 of trained and untrained: “.+” attends \d+ points (more|less) to “.+” in untrained\./);
  });

  it('shows the difference for common tokens only, and counts them', async () => {
    const drawing = compare.draw(await loadFrame(compare, capture(PARK, PLAY)));
    const [left, right, difference] = rasters(drawing.marks);
    expect([left.rows, right.rows, difference.rows]).toEqual([9, 10, 8]);
    expect(drawingTexts(drawing).join(' ')).toContain('8 tokens (of 9 and 10)');
    const none = compare.draw(await loadFrame(compare, capture(['a', 'b'], ['c', 'd', 'e'])));
    expect(drawingTexts(none).join(' ')).toContain('so there is no difference to show');
    expect(layoutProblems(none)).toEqual([]);
  });

  it('shows all three numbers of a cell in each of the maps', async () => {
    const frame = await loadFrame(compare, capture(PARK, PLAY), { heads: [0] });
    const drawing = compare.draw(frame);
    const [left, right, difference] = rasters(drawing.marks);
    const at = (raster: typeof left, row: number, column: number) =>
      drawing.targetAt?.(
        raster.x + ((column + 0.5) / raster.columns) * raster.w,
        raster.y + ((row + 0.5) / raster.rows) * raster.h,
      );
    const expected = frame.capture.weights(0, 0).at(0, 4, 7);
    const cells = [at(left, 4, 7), at(right, 5, 8), at(difference, 4, 6)]; // "play" attends to "park"
    for (const cell of cells) {
      expect(cell?.label).toContain('“play” attends to “park”');
      expect(cell?.tooltip?.()[1]).toContain(expected.toFixed(4).slice(0, 5));
      expect(cell?.tooltip?.()).toHaveLength(4);
      expect(cell?.overlay?.()).toEqual(cells[0]?.overlay?.());
    }
    expect(at(right, 4, 8)?.tooltip?.()).toContain('trained: does not have these tokens'); // only the other text has "a"
    expect(drawing.targetAt?.(1, 1)).toBeNull();
  });

  it('starts with the head of the layer that changed most, or with the mean', async () => {
    const comparison = capture(PARK, PARK);
    const drawing = compare.draw(await loadFrame(compare, comparison, { layer: 1 }));
    const { changes } = rankHeads(comparison, 0);
    const first = changes.find((each) => each.layer === 1)?.head;
    expect(drawingTexts(drawing)).toContain(`trained: layer 1, head ${first}`);
    expect(drawingTexts(drawing).join(' ')).toContain('This head changed most in its layer');
    const mean = compare.draw(await loadFrame(compare, comparison, { layer: 1, mean: true }));
    expect(drawingTexts(mean)).toContain('trained: layer 1, mean of 3 heads');
  });

  it('says what both sides predict, and if no weight differs', async () => {
    const same = capture(PARK, PARK);
    const [one, other] = same.header.sides;
    one.next = { sequence: 0, top: [[['of', 0.2]], [['<b>', 0.613]]], actual: [] };
    other.next = { sequence: 0, top: [[['of', 0.2]], [['<b>', 0.606]]], actual: [] };
    other.layers = one.layers;
    const drawing = compare.draw(await loadFrame(compare, same));
    expect(drawing.summary).toContain('None of the 6 heads attends differently.');
    const texts = drawingTexts(drawing).join(' ');
    expect(texts).toContain('After the last token, trained predicts “<b>” (61.3%), untrained “<b>” (60.6%).');
    expect(texts).not.toContain('changed most in its layer');
  });

  it('ranks heads, and a click selects one', async () => {
    const drawing = compare.draw(await loadFrame(compare, capture(PARK, PARK)));
    const list = drawing.targets.filter(({ key }) => key?.startsWith('compare/list/'));
    expect(list).toHaveLength(6);
    const [, l, h] = /list\/(\d+)\/(\d+)/.exec(list[0].key ?? '') ?? [];
    expect(list[0].pick).toEqual({
      layer: Number(l),
      heads: [Number(h)],
      mean: false,
      against: null,
    });
    const changes = list.map(({ label }) => Number(/change ([\d.]+)/.exec(label)?.[1]));
    expect([...changes].sort((a, b) => b - a)).toEqual(changes);
  });

  it('pairs models of different shapes by relative depth, and lets the user choose', async () => {
    const comparison = capture(PARK, PARK, [
      [3, 5],
      [2, 3],
    ]);
    const drawing = compare.draw(await loadFrame(compare, comparison, { layer: 4, heads: [2] }));
    expect(layoutProblems(drawing)).toEqual([]);
    expect(drawingTexts(drawing)).toContain('untrained: layer 2, head 1');
    expect(drawingTexts(drawing).join(' ')).toContain('The models have different shapes');
    const other = drawing.targets.find(({ key }) => key === 'compare/like/0/1');
    expect(other?.pick).toEqual({ against: [0, 1] });
    const otherDrawing = compare.draw(
      await loadFrame(compare, comparison, { layer: 4, heads: [2], ...other?.pick }),
    );
    expect(drawingTexts(otherDrawing)).toContain('untrained: layer 0, head 1');
    expect(drawingTexts(otherDrawing).join(' ')).toContain('as you chose');
  });

  it('can start from the other side', async () => {
    const drawing = compare.draw(
      await loadFrame(compare, capture(PARK, PLAY), { side: 1, mean: true }),
    );
    expect(
      rasters(drawing.marks)
        .slice(0, 3)
        .map(({ rows }) => rows),
    ).toEqual([10, 9, 8]);
    expect(drawingTexts(drawing)).toContain('untrained: layer 0, mean of 3 heads');
  });

  it('has a valid layout for any width, length and number of heads', async () => {
    const size = fc.record({
      heads: fc.integer({ min: 1, max: 17 }),
      layers: fc.integer({ min: 1, max: 5 }),
      tokens: fc.integer({ min: 1, max: 19 }),
      extra: fc.integer({ min: 0, max: 9 }),
      width: fc.integer({ min: 320, max: 2560 }),
      words: fc.boolean(),
      single: fc.boolean(),
    });
    await fc.assert(
      fc.asyncProperty(size, async ({ heads, layers, tokens, extra, width, words, single }) => {
        const names = Array.from({ length: tokens }, (_, i) => `t${i}`);
        const comparison = capture(
          names,
          [...names, ...Array(extra).fill('x')],
          [
            [heads, layers],
            [3, 2],
          ],
        );
        const frame = await loadFrame(
          compare,
          comparison,
          { words, heads: single ? [0] : [] },
          width,
          700,
        );
        expect(layoutProblems(compare.draw(frame))).toEqual([]);
      }),
      { numRuns: 25 },
    );
  });

  it('has a table with every head and every common weight', async () => {
    const frame = await loadFrame(compare, capture(PARK, PLAY), { heads: [1] });
    const { header, rows } = compare.table(frame);
    expect(header.slice(3, 5)).toEqual(['trained', 'untrained']);
    expect(rows.filter(([what]) => what === 'head')).toHaveLength(6);
    const weights = rows.filter(([what]) => what === 'weight');
    expect(weights).toHaveLength(64);
    const [, , , a, b, difference] = weights[9] as number[];
    expect(difference).toBeCloseTo(b - a, 6);
  });

  it('shows hostile tokens and labels as plain text', async () => {
    const words = [
      '</script><script>alert(1)</script>',
      '<img onerror=x>',
      '\ud800',
      '\u0000',
      'x'.repeat(10000),
    ];
    const drawing = compare.draw(
      await loadFrame(compare, capture(words, words), { heads: [0] }, 320),
    );
    expect(layoutProblems(drawing)).toEqual([]);
    expect(drawingTexts(drawing).every((text) => text.length < 1000)).toBe(true);
  });
});

describe('maps of many tokens', () => {
  it('keep thin lines: a pixel shows the largest of its cells, with its sign', () => {
    const values = new Float32Array(35).fill(0.1);
    values[7 * 2 + 3] = -0.9;
    const { rows, columns, values: few } = poolMatrix(values, 5, 7, 3, 4);
    expect([rows, columns]).toEqual([3, 4]);
    expect(few.filter((value) => value < 0)).toHaveLength(1);
    expect(few[1 * 4 + 2]).toBeCloseTo(-0.9, 6);
    expect(few.filter((value) => value > 0)).toHaveLength(11);
    expect(poolMatrix(values, 5, 7, 5, 9).values).toBe(values);
  });

  it('are ranked by small maps until the user asks for an exact ranking', async () => {
    const long = Array.from({ length: 40 }, (_, i) => `t${i}`);
    const comparison = capture(long, long, [
      [3, 2],
      [3, 2],
    ]);
    const shape = comparison.header.sides[0].layers[1].weights.shape;
    comparison.header.sides[0].layers[1].weights.shape = [3, 40, 100_000]; // pretend that it is large
    const needs = compare.needs(comparison, { ...DEFAULTS, layer: 0 });
    expect(needs.filter((need) => 'layer' in need && need.layer === 1)).toHaveLength(0);
    const exactNeeds = compare.needs(comparison, { ...DEFAULTS, layer: 0, order: 'change' });
    expect(exactNeeds.filter((need) => 'layer' in need && need.layer === 1)).toHaveLength(2);
    const frame = await loadFrame(compare, comparison, { layer: 0 });
    const drawing = compare.draw(frame);
    expect(drawing.targets.find(({ key }) => key === 'compare/exact')?.pick).toEqual({
      order: 'change',
    });
    expect(drawingTexts(drawing).join(' ')).toContain('estimated from the small maps');
    expect(layoutProblems(drawing)).toEqual([]);
    comparison.header.sides[0].layers[1].weights.shape = shape;
    await comparison.load(compare.needs(comparison, { ...DEFAULTS, order: 'change' }));
    const exact = compare.draw(frame);
    expect(exact.targets.some(({ key }) => key === 'compare/exact')).toBe(false);
  });
});
