import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { contrast, LEVELS, oklab } from '../shared/color';
import { toCsv } from '../shared/csv';
import { fitText, createMeasure } from '../shared/text-width';
import { lineBatches, rampLevels, rasterPixels, minusSigns, type Raster } from './raster';
import { escapeXml, writeSvg } from './write-svg';
import { EMPTY, headColor, headDash, theme } from '../shared/theme';
import type { Drawing, Mark } from './view';

const measure = createMeasure(null);
const drawing = (...marks: Mark[]): Drawing => ({
  width: 100,
  height: 50,
  marks,
  targets: [],
  summary: 'a & b',
});
const raster = (values: number[], signed = false): Raster => ({
  kind: 'raster',
  x: 0,
  y: 0,
  w: 90,
  h: 30,
  rows: 1,
  columns: values.length,
  values: Float32Array.from(values),
  signed,
});

describe('SVG', () => {
  const hostile = '</text><script>alert(1)</script><!-- ]]> &amp; "\' \u0000\ud800';

  it('escapes hostile text', () => {
    const text = writeSvg(
      drawing({ kind: 'text', x: 1, y: 2, text: hostile, size: 12 }),
      hostile,
      theme('light'),
      measure,
    );
    expect(text).not.toContain('<script');
    expect(text).not.toContain('<!--');
    expect(text).not.toMatch(/[\u0000-\u0008\ud800-\udfff]/);
    expect(text).toContain('&lt;/text&gt;&lt;script&gt;alert(1)');
    expect(text).toContain('<desc>a &amp; b</desc>');
  });

  it('escapes any text', () => {
    fc.assert(
      fc.property(fc.array(fc.nat(0xffff), { maxLength: 30 }), (codes) => {
        const safe = escapeXml(String.fromCharCode(...codes));
        expect(safe).not.toMatch(/[<>"']|&(?!amp;|lt;|gt;|quot;|#39;)/);
        expect(safe).not.toMatch(/\p{Cs}/u);
      }),
    );
  });

  it('draws every kind of mark, with theme colors only', () => {
    const lines: Mark = {
      kind: 'lines',
      points: Float32Array.of(0, 0, 9, 9, 0, 5, 9, 5),
      opacities: Float32Array.of(0.5, 0.5),
      widths: Float32Array.of(1, 1),
      stroke: 'head1',
      dash: [2, 2],
    };
    const text = writeSvg(
      drawing(
        { kind: 'rect', x: 0, y: 0, w: 5, h: -1, fill: 'ink" onload="x', radius: 2 },
        lines,
        raster([-1, 0.5, NaN], true),
        { kind: 'line', x1: 0, y1: NaN, x2: 1, y2: 1, stroke: '#123456', width: 1, opacity: 0.5 },
        {
          kind: 'picture',
          x: 0,
          y: 0,
          w: 9,
          h: 9,
          rows: 1,
          columns: 2,
          rgb: Uint8Array.of(1, 2, 3, 4, 5, 6),
        },
        {
          kind: 'text',
          x: 0,
          y: 0,
          text: 'abcdefghij',
          size: 10,
          limit: 31,
          rotate: -90,
          anchor: 'end',
          mono: true,
          bold: true,
        },
      ),
      't',
      theme('dark'),
      measure,
      (columns, rows, rgba) => `data:image/png;base64,${columns}x${rows}=${rgba.join('.')}`,
    );
    expect(text).not.toContain('onload');
    expect(text).not.toContain('NaN');
    expect(text).toContain('M0 0L9 9M0 5L9 5');
    expect(text).toContain('>abcd…<');
    expect(text.match(/data:image\/png;base64,/g)?.length).toBe(2);
    expect(text).toContain('2x1=1.2.3.255.4.5.6.255');
    expect(text).toContain('height="0"');
  });
});

describe('CSV', () => {
  it('quotes cells and disarms formulas', () => {
    const text = toCsv({
      title: '',
      header: ['a', 'b'],
      rows: [
        ['x,"y"', -0.5],
        ['=1+1', NaN],
        ['-', 2],
        [' @SUM(A1)', 1e-7],
        ['two\nlines', 0],
        ['a\u0000', 1],
      ],
    });
    expect(text).toBe(
      'a,b\r\n"x,""y""",-0.5\r\n"\'=1+1",\r\n"\'-",2\r\n' +
        '"\' @SUM(A1)",1e-7\r\n"two\nlines",0\r\na␀,1\r\n',
    );
  });

  it('never starts a text cell like a formula', () => {
    fc.assert(
      fc.property(fc.string(), (text) => {
        const [line] = toCsv({ title: '', header: [text], rows: [] }).split('\r\n');
        expect(line.replace(/^"/, '')).not.toMatch(/^\s*[=+\-@]/);
      }),
    );
  });

  it('limits the length of a cell', () => {
    expect(toCsv({ title: '', header: ['x'.repeat(10000)], rows: [] }).length).toBe(1003);
  });
});

describe('colors', () => {
  for (const mode of ['light', 'dark'] as const) {
    const { color, sequential, diverging } = theme(mode);
    const hex = (ramp: Uint8Array, i: number): string =>
      `#${[0, 1, 2].map((c) => ramp[3 * i + c].toString(16).padStart(2, '0')).join('')}`;
    const lightness = (ramp: Uint8Array, i: number): number => oklab(hex(ramp, i))[0];

    it(`${mode}: text and head colors contrast with the page`, () => {
      for (const name of ['ink', 'dim', 'accent', 'warn', 'good']) {
        expect(contrast(color(name), color('page'))).toBeGreaterThan(4.5);
        expect(contrast(color(name), color('card'))).toBeGreaterThan(4.5);
      }
      expect(contrast(color('ink'), color('found'))).toBeGreaterThan(4.5);
      for (let head = 0; head < 8; head += 1)
        expect(contrast(color(headColor(head)), color('page'))).toBeGreaterThan(3);
    });

    it(`${mode}: the lightness of the ramp is monotonic, in even steps`, () => {
      const steps = Array.from(
        { length: LEVELS - 1 },
        (_, i) => lightness(sequential, i + 1) - lightness(sequential, i),
      );
      const sign = mode === 'light' ? -1 : 1;
      const tens = Array.from(
        { length: 25 },
        (_, i) => sign * steps.slice(i * 10, i * 10 + 10).reduce((a, b) => a + b, 0),
      );
      expect(Math.min(...tens)).toBeGreaterThan(0.01);
      expect(hex(sequential, 0)).toBe(color('page'));
    });

    it(`${mode}: zero has the color of the page, and both ends are equally strong`, () => {
      expect(hex(diverging, (LEVELS - 1) / 2)).toBe(color('page'));
      expect(Math.abs(lightness(diverging, 0) - lightness(diverging, LEVELS - 1))).toBeLessThan(
        0.08,
      );
      for (let i = 0; i < 127; i += 9)
        expect(contrast(hex(diverging, i), color('page'))).toBeGreaterThanOrEqual(
          contrast(hex(diverging, i + 1), color('page')) - 0.05,
        );
    });
  }

  it('repeat with another dash', () => {
    const styles = Array.from({ length: 32 }, (_, head) => `${headColor(head)} ${headDash(head)}`);
    expect(new Set(styles).size).toBe(32);
  });

  it('are clamped, and unknown names fall back to ink', () => {
    expect([...rampLevels(raster([-5, 0, 9, NaN]))]).toEqual([0, 0, 254, EMPTY]);
    expect([...rampLevels(raster([-5, 0, 9, NaN], true))]).toEqual([0, 127, 254, EMPTY]);
    expect(theme('light').color('javascript:x')).toBe(theme('light').color('ink'));
    expect(theme('light').color('#ABCDEF')).toBe('#ABCDEF');
  });
});

describe('cells and lines', () => {
  it('mark negative values where cells are large enough', () => {
    const marked = minusSigns(raster([-1, 0.5, -0.01, -0.2], true));
    expect(marked.map((each) => [each.stroke, each.points.length / 4])).toEqual([
      ['ink', 1],
      ['page', 1],
    ]);
    expect(minusSigns(raster([-1], false))).toEqual([]);
    expect(minusSigns({ ...raster([-1, -1], true), w: 4 })).toEqual([]);
    expect([...rampLevels(raster([0, 1, NaN]))]).toEqual([0, 254, 255]);
  });

  it('have the color of the nearest level of the ramp', () => {
    const level = (value: number, signed: boolean): number => {
      if (Number.isNaN(value)) return EMPTY;
      const fraction = Math.max(0, Math.min(1, signed ? (value + 1) / 2 : value));
      return Math.round(fraction * (LEVELS - 1));
    };
    fc.assert(
      fc.property(
        fc.array(fc.float({ min: -2, max: 2 }), { minLength: 1 }),
        fc.boolean(),
        (values, signed) => {
          const cells = raster(values, signed);
          const [levels, colors] = [rampLevels(cells), rasterPixels(cells, theme('dark'))];
          const { sequential, diverging } = theme('dark');
          values.forEach((value, i) => {
            const expectedLevel = level(value, signed);
            expect(Math.abs(levels[i] - expectedLevel)).toBeLessThanOrEqual(
              expectedLevel === EMPTY ? 0 : 1,
            );
            const ramp = signed ? diverging : sequential;
            const expectedColor =
              levels[i] === EMPTY
                ? [0, 0, 0, 0]
                : [...ramp.subarray(3 * levels[i], 3 * levels[i] + 3), 255];
            expect([...colors.subarray(4 * i, 4 * i + 4)]).toEqual(expectedColor);
          });
        },
      ),
    );
  });

  it('are stroked together if they have the same style', () => {
    const all = lineBatches({
      kind: 'lines',
      points: new Float32Array(16),
      opacities: Float32Array.of(1, 0.2, 0.201, 1),
      widths: new Float32Array(4).fill(1),
      stroke: 'ink',
    });
    expect(all.map((batch) => batch.lines)).toEqual([
      [1, 2],
      [0, 3],
    ]);
  });

  it('shorten texts to a width', () => {
    const width = (text: string): number => text.length * 6;
    expect([fitText('abc', 18, width), fitText('abcdef', 24, width), fitText('abcdef', 1, width)]).toEqual([
      'abc',
      'abc…',
      '…',
    ]);
  });
});
