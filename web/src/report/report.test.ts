import fc from 'fast-check';
import { expect, test } from 'vitest';
import { AS_GIVEN } from '../shown';
import { changed, parse, print, shownOf, type Choices } from './choices';
import { compare, readReport, sorted, type Cell, type Report } from './report';

const lines = (...names: string[]): object => ({
  title: 'curves',
  note: '',
  plot: {
    kind: 'lines',
    x: 'x',
    y: 'y',
    series: names.map((name) => ({ name, points: [[1, 2]], band: [] })),
    marks: [],
  },
});

const made = (): Report =>
  readReport({
    format: 'attnlab-bench',
    version: 1,
    versions: { attnlab: '0' },
    machine: { cores: 2, gpu: null, head_dims: [1, 2] },
    seconds: 1,
    sections: [
      { name: 'error', title: 'e', parts: [lines('favor', 'elu, 2'), { plot: { kind: 'odd' } }] },
      { name: 'speed', title: 's', findings: ['x', 3], parts: [lines('elu, 2', 'favor', '|q| = 2')] },
    ],
  });

const plotOf = (report: Report, section: number) => {
  const part = report.sections[section].parts[0];
  if (part.kind !== 'drawn' || part.plot?.kind !== 'lines') throw new Error('no plot');
  return part.plot;
};

test('a report is read, and what is no report is refused', () => {
  const report = made();
  expect(report.machine).toEqual([
    ['cores', '2'],
    ['head dims', '1, 2'],
  ]);
  expect(report.sections[1].findings).toEqual(['x', '']);
  expect(report.sections[0].parts[1]).toMatchObject({ kind: 'drawn', plot: null });
  expect(() => readReport({ format: 'attnlab-claims' })).toThrow('no report');
  expect(() => readReport({ format: 'attnlab-bench', version: 2 })).toThrow('version 2');
});

test('nothing in a file throws once its format is right', () => {
  fc.assert(
    fc.property(fc.jsonValue(), (sections) => {
      const raw = { format: 'attnlab-bench', version: 1, sections, machine: sections };
      expect(Array.isArray(readReport(raw).sections)).toBe(true);
    }),
  );
});

test('rows without as many cells as the header are left out', () => {
  const report = readReport({
    format: 'attnlab-bench',
    version: 1,
    sections: [{ name: 't', parts: [{ header: ['a', 'b'], rows: [['x', 1], ['y'], 'z'] }] }],
  });
  expect(report.sections[0].parts[0]).toMatchObject({ rows: [['x', 1]] });
});

test('a line that is hidden in one figure is hidden in all, and comes back in all', () => {
  const report = made();
  const [error, speed] = [plotOf(report, 0), plotOf(report, 1)];
  let choices: Choices = parse('', report);
  choices = changed(choices, 'error.0', error, { ...AS_GIVEN, hidden: [1] });
  expect(choices.hidden).toEqual(['elu, 2']);
  expect(shownOf(choices, 'speed.0', speed).hidden).toEqual([0]);
  choices = changed(choices, 'speed.0', speed, { ...AS_GIVEN, hidden: [0, 2], table: true });
  expect(shownOf(choices, 'error.0', error)).toMatchObject({ hidden: [1], table: false });
  expect(shownOf(choices, 'speed.0', speed)).toMatchObject({ hidden: [0, 2], table: true });
  choices = changed(choices, 'error.0', error, { ...AS_GIVEN, hidden: [] });
  expect(choices.hidden).toEqual(['|q| = 2']);
});

test('the address keeps what was chosen, and ignores what is unknown', () => {
  const report = made();
  const choices: Choices = {
    section: 'speed',
    hidden: ['elu, 2', '|q| = 2'],
    figures: { 'speed.0': { ...AS_GIVEN, yLog: true, table: true } },
  };
  expect(parse(`#${print(choices, report)}`, report)).toEqual(choices);
  expect(print(parse('', report), report)).toBe('');
  const odd = parse('#show=none&hide=x|%zz&figure=a.b:t,speed.0:xl', report);
  expect(odd.section).toBe('error');
  expect(odd.hidden).toEqual([]);
  expect(odd.figures).toEqual({ 'speed.0': { ...AS_GIVEN, xLog: true } });
});

test('numbers are sorted by size however they are written, the unknown last', () => {
  const cells: Cell[] = ['1,500', null, { value: 2, low: 1, high: 3 }, 'never', '(900)', 'all', '', 34];
  const rows = cells.map((cell) => [cell]);
  const up = sorted(rows, { column: 0, down: false }).map(([cell]) => cell);
  expect(up).toEqual(['all', cells[2], 34, '(900)', '1,500', 'never', null, '']);
  const down = sorted(rows, { column: 0, down: true }).map(([cell]) => cell);
  expect(down.slice(0, 2)).toEqual(['never', '1,500']);
  expect(down.slice(-2)).toEqual([null, '']);
  expect(sorted(rows, null)).toBe(rows);
  expect(compare('51%', '8%')).toBeGreaterThan(0);
  expect(compare('softmax', 'favor')).toBeGreaterThan(0);
  expect(compare(1, 'favor')).toBeLessThan(0);
});
