import fc from 'fast-check';
import { expect, test } from 'vitest';
import { csv } from '../shared/csv';
import { measurer } from '../shared/fonts';
import { svg } from '../look/svg';
import { theme } from '../shared/theme';
import { problems } from '../../test-support/fake';
import { axisOf, barsOn } from './bars-layout';
import { dashOf, drawn } from './drawing';
import { placeOn } from './numbers';
import { readPlot, spelled, tableOf, type Bars, type Plot } from './plot';
import { flat } from './prose';
import { AS_GIVEN, toggled, type Shown } from './shown';

const measure = measurer(null);
const LINES = readPlot({
  kind: 'lines',
  x: 'number of keys n',
  y: 'error of u_a^T',
  x_log: true,
  series: [
    { name: 'exact', points: [[1, 2], [10, 3]], band: [[1, 3], [2, 4]] },
    { name: 'a < b & "c"', points: [[1, 5], [10, 'inf']], band: [] },
  ],
  marks: [{ label: 'limit', x: null, y: 3 }],
}) as Plot; // prettier-ignore
const BARS = readPlot({
  kind: 'bars',
  y: 'share',
  values: [
    { name: 'one', value: 4, low: 3, high: 5 },
    { name: 'other', value: 1 },
    { name: 'below', value: -1 },
  ],
  marks: [{ label: 'chance', x: null, y: 2 }],
}) as Bars;

const made = (plot: Plot, shown: Shown = AS_GIVEN): string =>
  svg(drawn({ title: 'Experiment', plot }, shown, 500, 250, measure), 'e', theme('light'), measure);

test('a file has the title, the axes, every series and the marked level', () => {
  const found = made(LINES);
  for (const text of ['Experiment', 'error of u_a^T', 'number of keys n', 'exact', 'limit'])
    expect(found).toContain(`>${text}</text>`);
  expect(found).toContain('a &lt; b &amp; &quot;c&quot;');
  expect(found.match(/<path[^>]*Z"/g)).toHaveLength(1); // one band
  const dark = svg(drawn({ title: 'E', plot: LINES }, AS_GIVEN, 500, 250, measure), 'e', theme('dark'), measure); // prettier-ignore
  expect(dark).toContain(theme('dark').colour('page'));
});

test('what is switched off is in neither figure nor legend, and leaves its room', () => {
  const without = made(LINES, toggled(AS_GIVEN, 0));
  expect(without).not.toContain('>exact<');
  expect(without).toContain(theme('light').colour('head1')); // its colour stays
  const bars = made(BARS, toggled(AS_GIVEN, 0));
  expect(bars).not.toContain('>one<');
  expect(bars).toContain('>other<');
  expect(barsOn(BARS, toggled(AS_GIVEN, 0)).map((bar) => bar.name)).toEqual(['other', 'below']);
  expect(axisOf(BARS, AS_GIVEN).high).toBe(5);
  expect(axisOf(BARS, toggled(AS_GIVEN, 0)).high).toBe(2); // the level
  expect(toggled(toggled(toggled(AS_GIVEN, 3), 1), 3).hidden).toEqual([1]);
});

test('a bar is as long as its value', () => {
  const { marks } = drawn({ title: 'E', plot: BARS }, AS_GIVEN, 500, 250, measure);
  const wide = marks.flatMap((mark) => (mark.kind === 'rect' ? [mark.w] : []));
  expect(wide[0] / wide[1]).toBeCloseTo(4, 6);
  expect(wide[1]).toBeCloseTo(wide[2], 6);
  const axis = axisOf(BARS, AS_GIVEN);
  expect(placeOn(axis, 0)).toBeCloseTo(100 / 6, 6);
});

test('any plot is drawn within its frame', () => {
  const value = fc.oneof(
    fc.double({ min: -1e9, max: 1e9, noNaN: true }),
    fc.constantFrom('inf', '-inf', 'nan'),
  );
  const text = fc.string({ maxLength: 200 });
  const raw = fc.record({
    kind: fc.constantFrom('lines', 'bars'),
    x: text,
    y: text,
    x_log: fc.boolean(),
    y_log: fc.boolean(),
    series: fc.array(
      fc.record({
        name: text,
        points: fc.array(fc.tuple(value, value), { maxLength: 9 }),
        band: fc.array(fc.tuple(value, value), { maxLength: 9 }),
      }),
      { maxLength: 9 },
    ),
    values: fc.array(fc.record({ name: text, value, low: value, high: value }), { maxLength: 9 }),
    marks: fc.array(fc.record({ label: text, x: fc.constant(null), y: value }), { maxLength: 2 }),
  });
  fc.assert(
    fc.property(raw, fc.option(fc.boolean()), fc.integer({ min: 0, max: 900 }), (each, yLog, width) => {
      const plot = readPlot(each) as Plot;
      const found = drawn({ title: 'E', plot }, { ...AS_GIVEN, yLog }, width, 250, measure);
      expect(problems(found)).toEqual([]);
    }),
  ); // prettier-ignore
});

test('the same as CSV, with what is infinite', () => {
  expect(csv(spelled(tableOf(LINES, 't')))).toBe(
    'series,number of keys n,error of u_a^T,from,to\r\n' +
      'exact,1,2,1,3\r\nexact,10,3,2,4\r\n' +
      '"a < b & ""c""",1,5,,\r\n"a < b & ""c""",10,inf,,\r\n',
  );
});

test('formulas in a line of their own', () => {
  expect(flat('u_a^T <= sqrt(d), e^(-L^2), mu_a')).toBe('u_a^T ≤ √d, e^(−L^2), μ_a');
});

test('no two of many lines look alike', () => {
  const looks = Array.from({ length: 24 }, (_, i) => `${i % 8} ${dashOf(i).join(' ')}`);
  expect(new Set(looks).size).toBe(24);
});
