import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { DEFAULTS, type Choices } from '../choices';
import { createMeasure } from '../../shared/text-width';
import {
  ArrayBlocks,
  makeHeader,
  makeLayer,
  openCapture,
  makeSequence,
} from '../../../test-support/file-captures';
import type { Frame, Mark } from '../view';
import { cross } from './cross';
import { sensible } from '../../shared/readable-text';
import { theme } from '../../shared/theme';
import { crop, figureDrawing } from '../figure-drawing';
import { heads } from './heads';
import { receivedWeights, strongestLines, type DisplayedHead } from './strongest-lines';
import { matrix } from './matrix';

const [H, T, S] = [2, 3, 5];
const WEIGHTS = Array.from({ length: H * T * S }, (_, i) => ((i * 7) % 11) / 10);

async function frame(
  choices: Partial<Choices> = {},
  size = { width: 800, height: 500 },
  signed = false,
): Promise<Frame> {
  const blocks = new ArrayBlocks();
  const read = makeSequence(['[CLS]', '<b>', 'x'.repeat(10000), '\ud800', 'end']);
  const written = makeSequence(['one', 'two', 'three'], { name: 'written' });
  const values = signed ? WEIGHTS.map((x, i) => (i % 3 ? x : -x)) : WEIGHTS;
  const layers = [
    makeLayer(
      blocks,
      Array.from({ length: H * S * S }, () => 1 / S),
      [H, S, S],
    ),
    makeLayer(blocks, values, [H, T, S], {
      queries: 1,
      kind: 'cross',
      stack: 'decoder',
      signed,
      normalised: false,
    }),
  ];
  const one = await openCapture(makeHeader(blocks, [read, written], layers), blocks);
  return {
    capture: one,
    choices: { ...DEFAULTS, layer: 1, ...choices },
    measure: createMeasure(null),
    ...size,
  };
}

const countLines = (marks: Mark[]): number =>
  marks.reduce((sum, mark) => sum + (mark.kind === 'lines' ? mark.opacities.length : 0), 0);
const markTexts = (marks: Mark[]): string[] =>
  marks.flatMap((mark) => (mark.kind === 'text' ? [mark.text] : []));

const contrast = (one: number[], other: number[]): number => {
  const luminance = (color: number[]): number => {
    const [r, g, b] = color.map((c) => (c / 255 <= 0.04045 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const [low, high] = [luminance(one), luminance(other)].sort((a, b) => a - b);
  return (high + 0.05) / (low + 0.05);
};
const rgb = (color: string): number[] => [1, 3, 5].map((i) => parseInt(color.slice(i, i + 2), 16));

describe('a selected token', () => {
  it('shades the tokens that it attends to, and writes their weights beside them', async () => {
    const one = await frame({ heads: [1], queries: [2] });
    const drawing = heads.draw(one);
    const row = WEIGHTS.slice((T + 2) * S, (T + 3) * S);
    const shades = drawing.marks.flatMap((mark) =>
      mark.kind === 'rect' && mark.fill === 'head1' && mark.radius === 3 ? [mark.opacity] : [],
    );
    expect(shades).toHaveLength(row.filter((weight) => weight > 0).length);
    expect(Math.max(...shades.map(Number))).toBeCloseTo(0.42, 6);
    for (const weight of row.filter((each) => each > 0))
      expect(markTexts(drawing.marks)).toContain(sensible(weight));
    expect(markTexts(heads.draw(await frame({ heads: [1] })).marks)).not.toContain(sensible(row[0]));
  });

  it('has room for a minus before the weights', async () => {
    const one = await frame({ heads: [1], queries: [2] }, undefined, true);
    const numbers = heads
      .draw(one)
      .marks.flatMap((mark) => (mark.kind === 'text' && /^[−-]?0\.\d/.test(mark.text) ? [mark] : []));
    expect(numbers.length).toBeGreaterThan(1);
    for (const { limit, size } of numbers)
      expect(limit).toBeGreaterThanOrEqual(1.1 * one.measure(sensible(-0.0514), size));
  });

  it('keeps a contrast of 4.5 on the strongest shade, in light and dark', () => {
    for (const mode of ['light', 'dark'] as const) {
      const { color } = theme(mode);
      for (const name of ['accent', ...Array.from({ length: 8 }, (_, i) => `head${i}`)]) {
        const [ink, page, shade] = ['ink', 'page', name].map((each) => rgb(color(each)));
        const mixed = shade.map((part, i) => 0.42 * part + 0.58 * page[i]);
        expect(contrast(ink, mixed), `${mode} ${name}`).toBeGreaterThanOrEqual(4.5);
      }
      expect(contrast(rgb(color('dim')), rgb(color('page')))).toBeGreaterThanOrEqual(4.5);
      expect(contrast(rgb(color('dim')), rgb(color('card')))).toBeGreaterThanOrEqual(4.5);
    }
  });

  it('is the subject of the sentence', async () => {
    const one = await frame({ layer: 0, heads: [0], queries: [4] });
    expect(heads.draw(one).summary).toMatch(/^Encoder 0, head 0: “end” attends most to “.*” \(20%\), then to “/);
    const peaked = await frame({ heads: [0], queries: [0] });
    expect(heads.draw(peaked).summary).toContain('“one” attends mostly to “');
  });

  it('has lines of each head at another height, and a tooltip beside its own column', async () => {
    const drawing = heads.draw(await frame({ queries: [0] }));
    const starts = drawing.marks.flatMap((mark) => (mark.kind === 'lines' ? [mark.points[1]] : []));
    expect(new Set(starts).size).toBe(H);
    const [query] = drawing.targets;
    const key = drawing.targets[drawing.targets.length - 1];
    expect(query.tooltipSpan?.[1]).toBeLessThanOrEqual(key.tooltipSpan?.[0] ?? 0);
  });
});

describe('a figure of its own', () => {
  it('is cropped to what is drawn, and has the finding as its caption', async () => {
    const one = await frame({ heads: [1], queries: [2] }, { width: 321, height: 500 });
    for (const view of [heads, matrix]) {
      const plain = figureDrawing(view, one, false);
      const captioned = figureDrawing(view, one, true);
      expect(plain.width).toBeLessThanOrEqual(321 + 16);
      expect(captioned.height).toBeGreaterThan(plain.height);
      expect(markTexts(captioned.marks).length).toBeGreaterThan(markTexts(plain.marks).length);
      const again = crop(plain, one.measure);
      expect([again.width, again.height]).toEqual([plain.width, plain.height]);
      for (const mark of plain.marks)
        if (mark.kind === 'text') {
          expect(mark.x).toBeGreaterThanOrEqual(0);
          expect(mark.y).toBeLessThanOrEqual(plain.height);
        }
    }
  });
});

describe('the strongest lines', () => {
  const makeHeads = (matrices: number[][], columns = 5): DisplayedHead[] =>
    matrices.map((all, head) => {
      const floats = Float32Array.from(all);
      const row = (query: number): Float32Array =>
        floats.slice(query * columns, (query + 1) * columns);
      return {
        head,
        name: '',
        heads: [head],
        values: floats,
        row,
        cell: (query, key) => row(query)[key],
        bytes: null,
      };
    });
  const weight = fc.float({ min: -1, max: 1, noNaN: true });
  const values = fc.array(fc.array(weight, { minLength: 15, maxLength: 15 }), {
    minLength: 2,
    maxLength: 2,
  });

  it('agree with a sort', () => {
    fc.assert(
      fc.property(
        values,
        fc.integer({ min: 1, max: 30 }),
        fc.option(fc.subarray([0, 1, 2], { minLength: 1 })),
        fc.option(fc.subarray([0, 3], { minLength: 1 })),
        (all, limit, queries, keys) => {
          const lines = strongestLines(makeHeads(all), 5, queries, keys, 3, 'log', limit);
          const sizes = all.flatMap((head) =>
            head.flatMap((x, i) =>
              (!queries || queries.includes(Math.floor(i / 5))) &&
              (!keys || keys.includes(i % 5)) &&
              Math.fround(x) !== 0
                ? [Math.abs(Math.fround(x))]
                : [],
            ),
          );
          expect(lines.size).toBeLessThanOrEqual(limit * 1.1 + 64);
          expect(lines.size + lines.leftOut).toBe(sizes.length);
          const expectedCount = sizes.filter(
            (x) => x >= (lines.keepEvery > 1 ? lines.thinBelow * 1.0001 : lines.cut),
          ).length;
          expect(lines.size).toBeGreaterThanOrEqual(Math.min(expectedCount, 1));
          if (lines.keepEvery === 1) expect(lines.size).toBe(expectedCount);
          for (let i = 0; i < lines.size; i += 1) {
            expect(lines.weights[i]).toBe(
              Math.fround(all[lines.headIndices[i]][lines.queries[i] * 5 + lines.keys[i]]),
            );
          }
        },
      ),
    );
  });

  for (const signed of [false, true]) {
    it(`are the same from ${signed ? 'signed ' : ''}bytes as from floats`, () => {
      const table = Float32Array.from({ length: 256 }, (_, c) => {
        const fraction = c < 128 ? c / 127 : (c - 256) / 127;
        return signed ? Math.sign(fraction) * fraction * fraction : (c / 255) ** 2;
      });
      const codes = fc.array(
        fc.integer({ min: 0, max: 255 }).map((c) => (signed && c === 128 ? 0 : c)),
        { minLength: 35, maxLength: 35 },
      );
      const scales = fc.array(fc.constantFrom(0, 1e-30, 0.003, 0.5, 1, 7), {
        minLength: 5,
        maxLength: 5,
      });
      fc.assert(
        fc.property(codes, scales, fc.integer({ min: 1, max: 40 }), (all, rows, limit) => {
          const bytes = { codes: Uint8Array.from(all), scales: Float32Array.from(rows), table };
          const floats = all.map((c, i) => bytes.scales[Math.floor(i / 7)] * table[c]);
          const [head] = makeHeads([floats], 7);
          const lines = strongestLines([{ ...head, bytes }], 7, null, null, 5, 'sqrt', limit);
          const sizes = floats.filter((x) => x !== 0).map(Math.abs);
          expect(lines.size + lines.leftOut).toBe(sizes.length);
          if (lines.keepEvery === 1)
            expect(lines.size).toBe(sizes.filter((x) => x >= lines.cut).length);
          expect(lines.size).toBeLessThanOrEqual(limit + 20); // bins of a few percent
          if (sizes.length) expect(lines.size).toBeGreaterThan(0);
          if (lines.keepEvery === 1) expect(lines.largest).toBeCloseTo(Math.max(0, ...sizes), 5);
          for (let i = 0; i < lines.size; i += 1)
            expect(lines.weights[i]).toBeCloseTo(floats[lines.queries[i] * 7 + lines.keys[i]], 6);
        }),
      );
    });
  }

  it('are thinned out evenly if very many are about equal', () => {
    const lines = strongestLines(
      makeHeads(Array.from({ length: 3 }, () => new Array<number>(500).fill(0.2))),
      5,
      null,
      null,
      100,
      'linear',
      150,
    );
    expect(lines.keepEvery).toBe(10);
    expect(
      [0, 1, 2].map(
        (head) => lines.headIndices.subarray(0, lines.size).filter((each) => each === head).length,
      ),
    ).toEqual([50, 50, 50]);
    expect(lines.leftOut).toBe(1350);
  });

  it('sum the weights that each key receives', () => {
    const { sums, largest } = receivedWeights(makeHeads([[1, 2, 3, 4, 5, 6]], 3), 3, null, 2);
    expect([[...sums[0]], largest]).toEqual([[5, 7, 9], 9]);
    expect([...receivedWeights(makeHeads([[1, 2, 3, 4, 5, 6]], 3), 3, [1], 2).sums[0]]).toEqual([
      4, 5, 6,
    ]);
  });
});

describe('heads', () => {
  it('draws a line for each visible weight, and counts the others', async () => {
    const drawing = heads.draw(await frame());
    const visibleCount = WEIGHTS.filter((x) => x > 0).length;
    expect(countLines(drawing.marks)).toBe(visibleCount);
    expect(drawing.note).toBeUndefined();
    expect(drawing.targets.length).toBe(T + S);
    expect(drawing.summary).toContain('Decoder 0 cross, 2 heads');
    const hidden = heads.draw(await frame({ threshold: 0.55 }));
    expect(countLines(hidden.marks)).toBe(WEIGHTS.filter((x) => x >= 0.55).length);
  });

  it('draws only the lines of the selected queries and key', async () => {
    expect(countLines(heads.draw(await frame({ queries: [1] })).marks)).toBe(
      [0, 1].flatMap((h) => WEIGHTS.slice((h * T + 1) * S, (h * T + 2) * S)).filter((x) => x > 0)
        .length,
    );
    expect(countLines(heads.draw(await frame({ key: 2, queries: [0], heads: [1] })).marks)).toBe(
      WEIGHTS[T * S + 2] > 0 ? 1 : 0,
    );
  });

  it('moves no target in previews', async () => {
    const one = await frame();
    const targetRects = (choices: Partial<Choices>) =>
      heads
        .draw({ ...one, choices: { ...one.choices, ...choices } })
        .targets.map(({ x, y, w, h }) => [x, y, w, h]);
    const [query, , , key] = heads.draw(one).targets;
    expect(targetRects(query.preview ?? {})).toEqual(targetRects({}));
    expect(targetRects(key.preview ?? {})).toEqual(targetRects({}));
  });

  it('shows hostile tokens as plain text, and in full in the tooltip', async () => {
    const drawing = heads.draw(await frame());
    const texts = markTexts(drawing.marks);
    expect(texts).toContain('<b>');
    expect(texts).toContain('‹U+D800›');
    expect(Math.max(...texts.map((text) => text.length))).toBeLessThan(100);
    expect(drawing.targets[T + 2].tooltip?.()[0]).toContain('10,000 characters');
  });

  it('has a table of exactly the drawn lines', async () => {
    const one = await frame({ heads: [1], queries: [2] });
    const { rows } = heads.table(one);
    expect(rows.length).toBe(countLines(heads.draw(one).marks));
    for (const [head, query, , key, , weight] of rows as [
      number,
      number,
      string,
      number,
      string,
      number,
    ][]) {
      expect(weight).toBeCloseTo(WEIGHTS[(head * T + query) * S + key], 4);
    }
    expect(rows.map((row) => row[5])).toEqual(
      [...rows.map((row) => row[5] as number)].sort((a, b) => b - a),
    );
  });

  it('draws negative weights with dotted lines', async () => {
    const { marks } = heads.draw(await frame({ heads: [0] }, undefined, true));
    const dotted = marks.filter((mark) => mark.kind === 'lines' && mark.dash?.length);
    expect(dotted.length).toBe(1);
    expect(markTexts(marks)).toContain('dotted: negative');
  });

  it('fits on a narrow page', async () => {
    const drawing = heads.draw(await frame({}, { width: 300, height: 300 }));
    for (const mark of drawing.marks)
      if (mark.kind === 'rect') expect(mark.x >= 0 && mark.x + mark.w <= 300).toBe(true);
    expect(drawing.width).toBe(300);
  });
});

describe('cross', () => {
  it('shows cross-attention layers only', async () => {
    const one = await frame({ layer: 0 });
    expect(cross.layers?.(one.capture, one.choices)).toEqual([1]);
    expect(cross.missingReason(one.capture, one.choices)).toBeNull();
    expect(cross.draw(one).summary).toContain('cross');
    one.capture.header.sides[0].layers.pop();
    expect(cross.missingReason(one.capture, one.choices)).toContain('no cross-attention');
  });
});

describe('matrix', () => {
  const cell = (
    drawing: ReturnType<typeof matrix.draw>,
    q: number,
    k: number,
    rows = T,
    columns = S,
  ) => {
    const { x, y, w, h } = drawing.zoom ?? { x: 0, y: 0, w: 0, h: 0 };
    return drawing.targetAt?.(x + ((k + 0.5) * w) / columns, y + ((q + 0.5) * h) / rows);
  };

  it('shows every weight in a tooltip', async () => {
    const one = await frame({ heads: [1] });
    const drawing = matrix.draw(one);
    for (let q = 0; q < T; q += 1) {
      for (let k = 0; k < S; k += 1) {
        expect(cell(drawing, q, k)?.tooltip?.()[1]).toContain(
          sensible(WEIGHTS[(T + q) * S + k]),
        );
      }
    }
    expect(drawing.targetAt?.(0, 0)).toBeNull();
    expect(drawing.findByKey?.('cell 2 4')?.label).toContain('query 2');
    expect(drawing.findByKey?.('cell 3 4')).toBeNull();
  });

  it('shows the mean of several heads, and the largest head', async () => {
    const tip = cell(matrix.draw(await frame()), 1, 2)?.tooltip?.() ?? [];
    const [a, b] = [WEIGHTS[S + 2], WEIGHTS[(T + 1) * S + 2]];
    expect(tip[1]).toContain(sensible((a + b) / 2));
    expect(tip[2]).toContain(`head ${b > a ? 1 : 0}`);
    expect(tip.join(' ')).toContain('sum of the row');
  });

  it('zooms, in the drawing and in the table', async () => {
    const one = await frame({ heads: [0], zoom: [1, 2, 2, 4] });
    const drawing = matrix.draw(one);
    expect(cell(drawing, 0, 0, 2, 3)?.key).toBe('cell 1 2');
    const raster = drawing.marks.find((mark) => mark.kind === 'raster');
    expect(raster?.kind === 'raster' && [raster.rows, raster.columns]).toEqual([2, 3]);
    expect(matrix.table(one).rows.length).toBe(6);
    expect(matrix.table(one).rows[0].slice(0, 3)).toEqual([1, 'two', 2]);
  });

  it('shows the captured weight beside a changed one', async () => {
    const tip =
      cell(matrix.draw(await frame({ heads: [0], first: 'hide' })), 1, 0)?.tooltip?.() ?? [];
    expect(tip.join('\n')).toContain('hidden as a sink');
    expect(tip.join('\n')).toContain('captured weight');
  });

  it('colors positive and negative weights differently', async () => {
    const drawing = matrix.draw(await frame({ heads: [0] }, undefined, true));
    const raster = drawing.marks.find((mark) => mark.kind === 'raster');
    expect(raster?.kind === 'raster' && raster.signed && Math.min(...raster.values)).toBeLessThan(
      0,
    );
  });
});
