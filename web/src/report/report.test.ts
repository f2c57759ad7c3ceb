import { expect, test } from 'vitest';
import { DEFAULT_FIGURE_OPTIONS } from './figure-options';
import { changeFigure, parseChoices, printChoices, figureOptions, type Choices } from './page-choices';
import { checkReport, splitSection } from './app';
import { readPlot, type Lines } from './plot-data';
import type { Report } from './report-types';
import { cellText, compare, sortRows, type Cell } from './table-cells';

const lines = (...names: string[]): object => ({
  kind: 'figure',
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

const makeReport = (): Report =>
  checkReport({
    format: 'attnlab-report',
    version: 1,
    kind: 'bench',
    title: 'made up',
    sections: [
      { name: 'error', blocks: [lines('favor', 'elu, 2'), { kind: 'figure', plot: null }] },
      { name: 'speed', blocks: [lines('elu, 2', 'favor', '|q| = 2')] },
    ],
  });

const plotOf = (report: Report, section: number): Lines => {
  const [block] = report.sections[section].blocks;
  return readPlot(block.kind === 'figure' && block.plot) as Lines;
};

test('other data and later versions are rejected', () => {
  expect(() => checkReport({ format: 'attnlab-claims' })).toThrow('not a report');
  expect(() => checkReport([])).toThrow('not a report');
  expect(() => checkReport({ format: 'attnlab-report', version: 2 })).toThrow('version 2');
});

test('a section with many sentences opens with its first figure and three of them', () => {
  const sentences = (name: string, count: number): string[] =>
    Array.from({ length: count }, (_, i) => `${name} ${i}`);
  const section = (findings: number, advice: number, kinds = ['table', 'figure', 'figure']) =>
    splitSection({
      findings: sentences('finding', findings),
      advice: sentences('advice', advice),
      blocks: kinds.map((kind) => ({ kind })),
    } as unknown as Report['sections'][number]);
  const many = section(8, 7);
  expect(many.first).toBe(1);
  expect(many.lead).toEqual({ findings: ['finding 0', 'finding 1'], advice: ['advice 0'] });
  expect(many.rest.findings.length + many.rest.advice.length).toBe(12);
  expect(section(1, 4).lead.advice).toHaveLength(2);
  expect(section(4, 0).lead.findings).toHaveLength(3);
  expect(section(2, 1).first).toBe(-1); // few sentences come first
  expect(section(8, 7, ['table']).lead.findings).toHaveLength(8); // there is no figure
});

test.each<[Cell, string]>([
  [null, '–'],
  [true, 'yes'],
  [0.123456, '0.123'],
  ['Infinity', '∞'],
  ['-Infinity', '−∞'],
  ['text', 'text'],
  [{ value: 0.97, low: 0.9, high: 1.04 }, '0.97 (0.90 to 1.04)'],
  [{ value: 'NaN' as never, low: null, high: null }, '–'],
])('a cell %s', (cell, text) => {
  expect(cellText(cell)).toBe(text);
});

test('hiding a line in one figure hides it in all, and showing it shows it in all', () => {
  const report = makeReport();
  const [error, speed] = [plotOf(report, 0), plotOf(report, 1)];
  let choices: Choices = parseChoices('', report);
  choices = changeFigure(choices, 'error.0', error, { ...DEFAULT_FIGURE_OPTIONS, hidden: [1] });
  expect(choices.hidden).toEqual(['elu, 2']);
  expect(figureOptions(choices, 'speed.0', speed).hidden).toEqual([0]);
  choices = changeFigure(choices, 'speed.0', speed, { ...DEFAULT_FIGURE_OPTIONS, hidden: [0, 2], table: true });
  expect(figureOptions(choices, 'error.0', error)).toMatchObject({ hidden: [1], table: false });
  expect(figureOptions(choices, 'speed.0', speed)).toMatchObject({ hidden: [0, 2], table: true });
  choices = changeFigure(choices, 'error.0', error, { ...DEFAULT_FIGURE_OPTIONS, hidden: [] });
  expect(choices.hidden).toEqual(['|q| = 2']);
});

test('the address keeps choices and ignores unknown values', () => {
  const report = makeReport();
  const choices: Choices = {
    section: 'speed',
    hidden: ['elu, 2', '|q| = 2'],
    figures: { 'speed.0': { ...DEFAULT_FIGURE_OPTIONS, yLog: true, table: true } },
  };
  expect(parseChoices(`#${printChoices(choices, report)}`, report)).toEqual(choices);
  expect(printChoices(parseChoices('', report), report)).toBe('');
  const odd = parseChoices('#show=none&hide=x|%zz&figure=a.b:t,speed.0:xl', report);
  expect(odd.section).toBe('error');
  expect(odd.hidden).toEqual([]);
  expect(odd.figures).toEqual({ 'speed.0': { ...DEFAULT_FIGURE_OPTIONS, xLog: true } });
});

test('numbers are sorted by value in any format, empty cells last', () => {
  const cells: Cell[] = ['1,500', null, { value: 2, low: 1, high: 3 }, 'never', '(900)', 'all', '', 34];
  const rows = cells.map((cell) => [cell]);
  const up = sortRows(rows, { column: 0, down: false }).map(([cell]) => cell);
  expect(up).toEqual(['all', cells[2], 34, '(900)', '1,500', 'never', null, '']);
  const down = sortRows(rows, { column: 0, down: true }).map(([cell]) => cell);
  expect(down.slice(0, 2)).toEqual(['never', '1,500']);
  expect(down.slice(-2)).toEqual([null, '']);
  expect(sortRows(rows, null)).toBe(rows);
  expect(compare('51%', '8%')).toBeGreaterThan(0);
  expect(compare('softmax', 'favor')).toBeGreaterThan(0);
  expect(compare(1, 'favor')).toBeLessThan(0);
  expect(compare('Infinity', 3)).toBeGreaterThan(0);
});
