import fc from 'fast-check';
import { expect, test } from 'vitest';
import { toCsv } from '../shared/csv';
import type { Table } from '../shared/table-type';
import { barScale, barLegend, visibleBars } from './bar-plot';
import { linesLayout, nearestStop } from './line-layout';
import { seriesDash } from './plot-colors';
import { readPlot, spellSpecialNumbers, plotTable, type Bars, type Lines } from './plot-data';
import { DEFAULT_FIGURE_OPTIONS, parseFigureOptions, printFigureOptions, toggleHidden, type FigureOptions } from './figure-options';

const RAW = {
  kind: 'lines',
  x: 'n',
  y: 'error',
  x_log: true,
  y_log: true,
  series: [
    { name: 'a', points: [[1, 2], [10, 0], [100, 'Infinity']], band: [[1, 3], [0, 1], ['NaN', 'NaN']] },
    { name: 'b', points: [[5, 4]], band: [] },
  ],
  marks: [{ label: 'limit', x: null, y: 3 }],
}; // prettier-ignore

test('a plot is read as attnlab.report writes it', () => {
  const plot = readPlot(RAW) as Lines;
  expect(plot.series[0].points[2]).toEqual({ x: 100, y: Infinity, low: NaN, high: NaN });
  expect(plot.series[1].points[0]).toEqual({ x: 5, y: 4, low: null, high: null });
  expect(plot.marks).toEqual([{ label: 'limit', x: null, y: 3 }]);
  expect(plotTable(plot, 't').rows).toHaveLength(4);
  expect(plotTable(plot, 't').header).toEqual(['series', 'n', 'error', 'from', 'to']);
  const bars = (more: object): Table =>
    plotTable(readPlot({ kind: 'bars', y: 'e', values: [['x', { value: 1 }]], ...more })!, 't');
  expect(bars({})).toEqual({ title: 't', header: ['name', 'e'], rows: [['x', 1]] });
  const beside = bars({ beside: [['x', 2]], beside_name: 'before' });
  expect(beside).toEqual({ title: 't', header: ['name', 'before', 'e'], rows: [['x', 2, 1]] });
});

test('other JSON gives no plot, and nothing throws', () => {
  expect(readPlot(null)).toBeNull();
  expect(readPlot({ kind: 'pie' })).toBeNull();
  fc.assert(
    fc.property(fc.jsonValue(), (raw) => {
      for (const kind of ['lines', 'bars', 'heatmap']) {
        const plot = readPlot({ kind, series: raw, values: raw, beside: raw, marks: raw });
        if (plot) plotTable(plot, 't');
        if (plot?.kind === 'lines') linesLayout(plot, DEFAULT_FIGURE_OPTIONS, 400, 250);
        if (plot?.kind === 'bars') barScale(plot, DEFAULT_FIGURE_OPTIONS);
      }
    }),
  );
});

test('points that a logarithmic axis cannot show are counted', () => {
  const plot = readPlot(RAW) as Lines;
  const log = linesLayout(plot, DEFAULT_FIGURE_OPTIONS, 400, 250);
  expect(log.skipped).toBe(2);
  expect(log.stops).toEqual([1, 5]);
  const linear = linesLayout(plot, { ...DEFAULT_FIGURE_OPTIONS, yLog: false }, 400, 250);
  expect(linear.skipped).toBe(1);
  expect(linear.stops).toEqual([1, 5, 10]);
  const hidden = linesLayout(plot, { ...DEFAULT_FIGURE_OPTIONS, hidden: [0] }, 400, 250);
  expect(hidden.stops).toEqual([5]);
  expect(hidden.lines.map((each) => each.index)).toEqual([1]);
});

test('every point lies within the frame', () => {
  const value = fc.double({ noNaN: true });
  fc.assert(
    fc.property(
      fc.array(fc.tuple(value, value), { maxLength: 12 }),
      fc.boolean(),
      fc.boolean(),
      (points, x_log, y_log) => {
        const series = [{ name: 's', points: points.map(([x, y]) => [x, y]), band: [] }];
        const plot = readPlot({ kind: 'lines', x_log, y_log, series, marks: [] }) as Lines;
        const layout = linesLayout(plot, DEFAULT_FIGURE_OPTIONS, 400, 250);
        const { left, right, top, bottom } = layout.frame;
        for (const { x, y } of layout.lines.flatMap((each) => each.points)) {
          expect(layout.x(x)).toBeGreaterThanOrEqual(left - 0.01);
          expect(layout.x(x)).toBeLessThanOrEqual(right + 0.01);
          expect(layout.y(y)).toBeGreaterThanOrEqual(top - 0.01);
          expect(layout.y(y)).toBeLessThanOrEqual(bottom + 0.01);
        }
        for (const line of layout.lines) expect(line.path).not.toMatch(/NaN|Infinity/);
      },
    ),
  );
});

test('the nearest stop is measured on the screen', () => {
  const layout = linesLayout(readPlot(RAW) as Lines, { ...DEFAULT_FIGURE_OPTIONS, yLog: false }, 400, 250);
  const { left, right } = layout.frame;
  const middle = (left + right) / 2;
  expect(nearestStop(layout, left)).toBe(0);
  expect(nearestStop(layout, middle)).toBe(1); // 1 to 10, so 3.2: nearer to 5 on this axis
  expect(nearestStop(layout, 9999)).toBe(2);
});

test('options survive the address', () => {
  fc.assert(
    fc.property(
      fc.option(fc.boolean()),
      fc.option(fc.boolean()),
      fc.uniqueArray(fc.nat(99), { maxLength: 9 }),
      fc.boolean(),
      (xLog, yLog, hidden, table) => {
        const options: FigureOptions = { xLog, yLog, hidden, table };
        expect(parseFigureOptions(printFigureOptions(options))).toEqual(options);
      },
    ),
  );
  expect(parseFigureOptions('xq.h9999.__proto__.t9')).toEqual(DEFAULT_FIGURE_OPTIONS);
});

test('intervals are a band, or bars with caps', () => {
  const band = linesLayout(readPlot(RAW) as Lines, { ...DEFAULT_FIGURE_OPTIONS, yLog: false }, 400, 250);
  expect(band.lines.map((each) => [each.band !== '', each.whiskers])).toEqual([[true, ''], [false, '']]);
  const [series] = RAW.series;
  const bars = linesLayout(
    readPlot({ ...RAW, series: [{ ...series, error_bars: true }] }) as Lines,
    DEFAULT_FIGURE_OPTIONS,
    400,
    250,
  );
  expect(bars.lines[0].band).toBe('');
  expect(bars.lines[0].whiskers.match(/M/g)).toHaveLength(1); // the other points are not drawn
});

test('fractions are options in percent', () => {
  const plot = readPlot({ ...RAW, y_log: false, y_percent: true, series: [{ name: 'a', points: [[1, 0], [9, 1]] }], marks: [] });
  const ticks = linesLayout(plot as Lines, DEFAULT_FIGURE_OPTIONS, 400, 250).yTicks.map((each) => each.text);
  expect(ticks.at(-1)).toBe('100%');
});

const BARS = readPlot({
  kind: 'bars',
  y: 'share',
  values: [
    ['one', { value: 4, low: 3, high: 5 }],
    ['other', { value: 1 }],
    ['below', { value: -1 }],
  ],
  marks: [{ label: 'chance', x: null, y: 2 }],
}) as Bars;

test('the length of a bar is its value, and hidden bars do not count', () => {
  const scale = barScale(BARS, DEFAULT_FIGURE_OPTIONS);
  expect(scale(0)).toBeCloseTo(100 / 6, 6);
  expect((scale(4) - scale(0)) / (scale(1) - scale(0))).toBeCloseTo(4, 6);
  expect(visibleBars(BARS, toggleHidden(DEFAULT_FIGURE_OPTIONS, 0)).map((bar) => bar.name)).toEqual(['other', 'below']);
  expect(scale.domain()[1]).toBe(5);
  expect(barScale(BARS, toggleHidden(DEFAULT_FIGURE_OPTIONS, 0)).domain()[1]).toBe(2); // the level
  expect(barLegend(BARS, false)).toBe('dashed: chance, 2');
  expect(toggleHidden(toggleHidden(toggleHidden(DEFAULT_FIGURE_OPTIONS, 3), 1), 3).hidden).toEqual([1]);
});

test('a plot as CSV, with infinite values', () => {
  expect(toCsv(spellSpecialNumbers(plotTable(readPlot(RAW)!, 't')))).toBe(
    'series,n,error,from,to\r\na,1,2,1,3\r\na,10,0,0,1\r\na,100,inf,nan,nan\r\nb,5,4,,\r\n',
  );
});

test('no two of many lines look alike', () => {
  const looks = Array.from({ length: 24 }, (_, i) => `${i % 8} ${seriesDash(i)}`);
  expect(new Set(looks).size).toBe(24);
});
