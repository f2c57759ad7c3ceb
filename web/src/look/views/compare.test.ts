import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Opened } from '../capture';
import { DEFAULTS } from '../choices';
import type { Mark } from '../view';
import { ranking } from './change';
import { compare } from './compare';
import { pooled } from './panel';
import { Blocks, framed, layer, opened, problems, sequence, shares, side, texts } from '../../../test-support/fake';

const PARK = 'I was going to play at the park .'.split(' ');
const PLAY = 'I was going to a play in the park .'.split(' ');

function capture(
  first: string[],
  second: string[],
  shapes: [number, number][] = [
    [3, 2],
    [3, 2],
  ],
): Opened {
  const blocks = new Blocks();
  const sides = [first, second].map((words, s) => {
    const [heads, layers] = shapes[s];
    const all = Array.from({ length: layers }, (_, l) =>
      layer(
        blocks,
        [heads, words.length, words.length],
        shares(heads, words.length, words.length, 5 + 31 * s + l),
      ),
    );
    return side(blocks, [sequence('t', words)], all, { label: ['trained', 'untrained'][s] });
  });
  return opened(blocks, sides);
}

const rasters = (marks: Mark[]) =>
  marks.flatMap((mark) => (mark.kind === 'raster' && mark.rows > 1 ? [mark] : []));

describe('comparing', () => {
  it('needs two sides', () => {
    const blocks = new Blocks();
    const one = opened(blocks, [
      side(blocks, [sequence('t', ['a'])], [layer(blocks, [1, 1, 1], [1])]),
    ]);
    expect(compare.missing(one, DEFAULTS)).toContain('--untrained');
    expect(compare.missing(capture(PARK, PLAY), DEFAULTS)).toBeNull();
  });

  it('shows both maps in one scale and the signed difference', async () => {
    const frame = await framed(compare, capture(PARK, PARK), { layer: 1, heads: [2] });
    const drawing = compare.draw(frame);
    expect(problems(drawing)).toEqual([]);
    const [left, right, difference] = rasters(drawing.marks);
    expect([left.signed, right.signed, difference.signed]).toEqual([false, false, true]);
    const [a, b] = [frame.opened.weights(0, 1).head(2), frame.opened.weights(1, 1).head(2)];
    const most = Math.max(...a, ...b);
    const apart = Math.max(...a.map((value, i) => Math.abs(b[i] - value)));
    expect(left.values[7]).toBeCloseTo(a[7] / most, 5);
    expect(right.values[7]).toBeCloseTo(b[7] / most, 5);
    expect(difference.values[7]).toBeCloseTo((b[7] - a[7]) / apart, 5);
    expect(texts(drawing)).toContain('trained: layer 1, head 2');
    expect(texts(drawing)).toContain('Difference: the second map less the first');
    expect(drawing.summary).toMatch(/^trained, layer 1, head 2, beside untrained, layer 1, head 2/);
  });

  it('puts only tokens of both into the difference, and says how many', async () => {
    const drawing = compare.draw(await framed(compare, capture(PARK, PLAY)));
    const [left, right, difference] = rasters(drawing.marks);
    expect([left.rows, right.rows, difference.rows]).toEqual([9, 10, 8]);
    expect(texts(drawing).join(' ')).toContain('8 tokens (of 9 and 10)');
    const none = compare.draw(await framed(compare, capture(['a', 'b'], ['c', 'd', 'e'])));
    expect(texts(none).join(' ')).toContain('so there is no difference to show');
    expect(problems(none)).toEqual([]);
  });

  it('tells all three numbers at a cell, wherever it is pointed at', async () => {
    const frame = await framed(compare, capture(PARK, PLAY), { heads: [0] });
    const drawing = compare.draw(frame);
    const [left, right, difference] = rasters(drawing.marks);
    const at = (raster: typeof left, row: number, column: number) =>
      drawing.at?.(
        raster.x + ((column + 0.5) / raster.columns) * raster.w,
        raster.y + ((row + 0.5) / raster.rows) * raster.h,
      );
    const wanted = frame.opened.weights(0, 0).at(0, 4, 7);
    const cells = [at(left, 4, 7), at(right, 5, 8), at(difference, 4, 6)]; // "play" looks at "park"
    for (const cell of cells) {
      expect(cell?.label).toContain('“play” looks at “park”');
      expect(cell?.tip?.()[1]).toContain(wanted.toFixed(4).slice(0, 5));
      expect(cell?.tip?.()).toHaveLength(4);
      expect(cell?.over?.()).toEqual(cells[0]?.over?.());
    }
    expect(at(right, 4, 8)?.tip?.()).toContain('trained: not these tokens'); // "a" is only there
    expect(drawing.at?.(1, 1)).toBeNull();
  });

  it('begins with the head of the layer that changed most, or the mean', async () => {
    const two = capture(PARK, PARK);
    const drawing = compare.draw(await framed(compare, two, { layer: 1 }));
    const { changes } = ranking(two, 0);
    const first = changes.find((each) => each.layer === 1)?.head;
    expect(texts(drawing)).toContain(`trained: layer 1, head ${first}`);
    expect(texts(drawing).join(' ')).toContain('This head changed most in its layer');
    const mean = compare.draw(await framed(compare, two, { layer: 1, mean: true }));
    expect(texts(mean)).toContain('trained: layer 1, mean of 3 heads');
  });

  it('ranks heads; a click goes to one', async () => {
    const drawing = compare.draw(await framed(compare, capture(PARK, PARK)));
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

  it('pairs models of different shapes by depth, says so, and lets a person choose', async () => {
    const two = capture(PARK, PARK, [
      [3, 5],
      [2, 3],
    ]);
    const drawing = compare.draw(await framed(compare, two, { layer: 4, heads: [2] }));
    expect(problems(drawing)).toEqual([]);
    expect(texts(drawing)).toContain('untrained: layer 2, head 1');
    expect(texts(drawing).join(' ')).toContain('The models have different shapes');
    const other = drawing.targets.find(({ key }) => key === 'compare/like/0/1');
    expect(other?.pick).toEqual({ against: [0, 1] });
    const chosen = compare.draw(
      await framed(compare, two, { layer: 4, heads: [2], ...other?.pick }),
    );
    expect(texts(chosen)).toContain('untrained: layer 0, head 1');
    expect(texts(chosen).join(' ')).toContain('as chosen');
  });

  it('can be looked at from the other side', async () => {
    const drawing = compare.draw(
      await framed(compare, capture(PARK, PLAY), { side: 1, mean: true }),
    );
    expect(
      rasters(drawing.marks)
        .slice(0, 3)
        .map(({ rows }) => rows),
    ).toEqual([10, 9, 8]);
    expect(texts(drawing)).toContain('untrained: layer 0, mean of 3 heads');
  });

  it('keeps its place at any width, length and number of heads', async () => {
    const size = fc.record({
      heads: fc.integer({ min: 1, max: 17 }),
      layers: fc.integer({ min: 1, max: 5 }),
      tokens: fc.integer({ min: 1, max: 19 }),
      more: fc.integer({ min: 0, max: 9 }),
      width: fc.integer({ min: 320, max: 2560 }),
      words: fc.boolean(),
      single: fc.boolean(),
    });
    await fc.assert(
      fc.asyncProperty(size, async ({ heads, layers, tokens, more, width, words, single }) => {
        const names = Array.from({ length: tokens }, (_, i) => `t${i}`);
        const two = capture(
          names,
          [...names, ...Array(more).fill('x')],
          [
            [heads, layers],
            [3, 2],
          ],
        );
        const frame = await framed(compare, two, { words, heads: single ? [0] : [] }, width, 700);
        expect(problems(compare.draw(frame))).toEqual([]);
      }),
      { numRuns: 25 },
    );
  });

  it('has a table with every head and every common weight', async () => {
    const frame = await framed(compare, capture(PARK, PLAY), { heads: [1] });
    const { header, rows } = compare.table(frame);
    expect(header.slice(3, 5)).toEqual(['trained', 'untrained']);
    expect(rows.filter(([what]) => what === 'head')).toHaveLength(6);
    const weights = rows.filter(([what]) => what === 'weight');
    expect(weights).toHaveLength(64);
    const [, , , a, b, difference] = weights[9] as number[];
    expect(difference).toBeCloseTo(b - a, 6);
  });

  it('shows hostile tokens and labels as text', async () => {
    const words = [
      '</script><script>alert(1)</script>',
      '<img onerror=x>',
      '\ud800',
      '\u0000',
      'x'.repeat(10000),
    ];
    const drawing = compare.draw(await framed(compare, capture(words, words), { heads: [0] }, 320));
    expect(problems(drawing)).toEqual([]);
    expect(texts(drawing).every((text) => text.length < 1000)).toBe(true);
  });
});

describe('maps of many tokens', () => {
  it('keep their lines: a pixel has the largest of its cells, sign and all', () => {
    const values = new Float32Array(35).fill(0.1);
    values[7 * 2 + 3] = -0.9;
    const { rows, columns, values: few } = pooled(values, 5, 7, 3, 4);
    expect([rows, columns]).toEqual([3, 4]);
    expect(few.filter((value) => value < 0)).toHaveLength(1);
    expect(few[1 * 4 + 2]).toBeCloseTo(-0.9, 6);
    expect(few.filter((value) => value > 0)).toHaveLength(11);
    expect(pooled(values, 5, 7, 5, 9).values).toBe(values);
  });

  it('are ranked by small maps until a person asks for more', async () => {
    const long = Array.from({ length: 40 }, (_, i) => `t${i}`);
    const two = capture(long, long, [
      [3, 2],
      [3, 2],
    ]);
    const shape = two.header.sides[0].layers[1].weights.shape;
    two.header.sides[0].layers[1].weights.shape = [3, 40, 100_000]; // as if it were large
    const needs = compare.needs(two, { ...DEFAULTS, layer: 0 });
    expect(needs.filter((need) => 'layer' in need && need.layer === 1)).toHaveLength(0);
    const asked = compare.needs(two, { ...DEFAULTS, layer: 0, order: 'change' });
    expect(asked.filter((need) => 'layer' in need && need.layer === 1)).toHaveLength(2);
    const frame = await framed(compare, two, { layer: 0 });
    const drawing = compare.draw(frame);
    expect(drawing.targets.find(({ key }) => key === 'compare/exact')?.pick).toEqual({
      order: 'change',
    });
    expect(texts(drawing).join(' ')).toContain('estimated from the small maps');
    expect(problems(drawing)).toEqual([]);
    two.header.sides[0].layers[1].weights.shape = shape;
    await two.load(compare.needs(two, { ...DEFAULTS, order: 'change' }));
    const exact = compare.draw(frame);
    expect(exact.targets.some(({ key }) => key === 'compare/exact')).toBe(false);
  });
});
