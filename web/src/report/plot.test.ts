import fc from 'fast-check';
import { expect, test } from 'vitest';
import { linesLayout, nearest } from './layout';
import { readPlot, tableOf, type Lines } from './plot';
import { AS_GIVEN, parseShown, printShown, type Shown } from './shown';

const RAW = {
  kind: 'lines',
  x: 'n',
  y: 'error',
  x_log: true,
  y_log: true,
  series: [
    { name: 'a', points: [[1, 2], [10, 0], [100, 'inf']], band: [[1, 3], [0, 1], ['nan', 'nan']] },
    { name: 'b', points: [[5, 4]], band: [] },
  ],
  marks: [{ label: 'limit', x: null, y: 3 }],
}; // prettier-ignore

test('a plot is read as the ledger writes it', () => {
  const plot = readPlot(RAW) as Lines;
  expect(plot.series[0].points[2]).toEqual({ x: 100, y: Infinity, low: NaN, high: NaN });
  expect(plot.series[1].points[0]).toEqual({ x: 5, y: 4, low: null, high: null });
  expect(plot.marks).toEqual([{ label: 'limit', x: null, y: 3 }]);
  expect(tableOf(plot, 't').rows).toHaveLength(4);
  expect(tableOf(plot, 't').header).toEqual(['series', 'n', 'error', 'from', 'to']);
  const bars = readPlot({ kind: 'bars', y: 'e', values: [{ name: 'x', value: 1 }], marks: [] });
  expect(bars && tableOf(bars, 't')).toEqual({ title: 't', header: ['name', 'e'], rows: [['x', 1]] });
});

test('anything else is no plot, and nothing throws', () => {
  expect(readPlot(null)).toBeNull();
  expect(readPlot({ kind: 'pie' })).toBeNull();
  fc.assert(
    fc.property(fc.jsonValue(), (raw) => {
      for (const kind of ['lines', 'bars']) {
        const plot = readPlot({ kind, series: raw, values: raw, marks: raw });
        if (plot) tableOf(plot, 't');
        if (plot?.kind === 'lines') linesLayout(plot, AS_GIVEN, 400, 250);
      }
    }),
  );
});

test('what a logarithmic axis cannot show is left out, and counted', () => {
  const plot = readPlot(RAW) as Lines;
  const log = linesLayout(plot, AS_GIVEN, 400, 250);
  expect(log.left).toBe(2);
  expect(log.stops).toEqual([1, 5]);
  const linear = linesLayout(plot, { ...AS_GIVEN, yLog: false }, 400, 250);
  expect(linear.left).toBe(1);
  expect(linear.stops).toEqual([1, 5, 10]);
  const hidden = linesLayout(plot, { ...AS_GIVEN, hidden: [0] }, 400, 250);
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
        const found = linesLayout(plot, AS_GIVEN, 400, 250);
        for (const { at } of found.lines.flatMap((each) => each.dots)) {
          expect(at[0]).toBeGreaterThanOrEqual(found.frame.left - 0.01);
          expect(at[0]).toBeLessThanOrEqual(found.frame.right + 0.01);
          expect(at[1]).toBeGreaterThanOrEqual(found.frame.top - 0.01);
          expect(at[1]).toBeLessThanOrEqual(found.frame.bottom + 0.01);
        }
        for (const line of found.lines) expect(line.path).not.toMatch(/NaN|Infinity/);
      },
    ),
  );
});

test('the nearest stop is by the screen, not by the value', () => {
  const found = linesLayout(readPlot(RAW) as Lines, { ...AS_GIVEN, yLog: false }, 400, 250);
  const middle = (found.x.start + found.x.end) / 2;
  expect(nearest(found, found.x.start)).toBe(0);
  expect(nearest(found, middle)).toBe(1); // 1 to 10, so 3.2: nearer to 5 on this axis
  expect(nearest(found, 9999)).toBe(2);
});

test('changes go through the address', () => {
  fc.assert(
    fc.property(
      fc.option(fc.boolean()),
      fc.option(fc.boolean()),
      fc.uniqueArray(fc.nat(99), { maxLength: 9 }),
      fc.boolean(),
      (xLog, yLog, hidden, table) => {
        const shown: Shown = { xLog, yLog, hidden, table };
        expect(parseShown(printShown(shown))).toEqual(shown);
      },
    ),
  );
  expect(parseShown('xq.h9999.__proto__.t9')).toEqual(AS_GIVEN);
});
