import { expect, test } from 'vitest';
import { matches, NOTHING, parse, print, type Choices } from './choices';
import { csv } from '../../shared/csv';
import { spelled } from '../plot';
import { controlTold, interval, readLedger, tableOf, told, type Ledger } from './ledger';

const row = (id: string, more: object = {}): object => ({
  id,
  topic: 'retrieve',
  source: 'course',
  statement: `statement of ${id}`,
  quoted: false,
  why: 'because e^-t is small',
  reference: '',
  measured: 'error',
  threshold: 'at most 1',
  outcome: 'holds',
  condition: '',
  figure: { value: 0.5, low: 0.4, high: 'inf' },
  plot: { kind: 'bars', y: 'y', values: [], marks: [] },
  details: { n: 3, kind: 'x' },
  control: { what: 'spoiled', outcome: 'refuted', condition: '', figure: null, plot: null },
  trusted: true,
  seconds: 1,
  ...more,
});

const made = (claims: object[]): Ledger =>
  readLedger({
    format: 'attnlab-claims',
    version: 2,
    seed: 0,
    size: 'small',
    versions: { attnlab: '0' },
    topics: { retrieve: 'What one query can retrieve', positions: 'Positions', own: 'Own' },
    claims,
  });

const ledger = made([
  row('copy'),
  row('low-rank', { outcome: 'holds only when', condition: 'd is at least 8', trusted: false }),
  row('shift', { topic: 'positions', outcome: 'not run', condition: 'needs a model' }),
]);

test('topics are those that are used, with their own numbers', () => {
  expect(ledger.topics.map(({ id, number }) => [id, number])).toEqual([
    ['retrieve', 1],
    ['positions', 2],
  ]);
});

test('verdicts in words', () => {
  const [copy, rank, shift] = ledger.claims;
  expect(told(copy)).toBe('holds');
  expect(told(rank)).toBe('holds only when d is at least 8');
  expect(told(shift)).toBe('not run: needs a model');
  expect(controlTold(copy)).toBe('refuted');
  expect(controlTold(rank)).toContain('should disagree');
  expect(copy.figure && interval(copy.figure)).toBe('0.4 to ∞');
  expect(copy.details).toEqual([
    ['n', '3'],
    ['kind', 'x'],
  ]);
});

test('what is no ledger is refused, what is odd in one is not', () => {
  expect(() => readLedger({ format: 'other' })).toThrow('no ledger');
  expect(() => readLedger({ format: 'attnlab-claims', version: 3 })).toThrow('version 3');
  const odd = made([{ id: 'x', outcome: 'maybe', plot: 7, figure: 'no', control: null }]);
  expect(odd.claims[0].outcome).toBeNull();
  expect(told(odd.claims[0])).toBe('not judged');
});

test('choices go through the address', () => {
  const choices: Choices = {
    topic: 'positions',
    outcomes: ['holds only when', 'not run'],
    doubtful: true,
    search: 'e^-t & 100% =',
    open: ['copy', 'low-rank'],
    tried: ['copy'],
    at: '',
    figures: { copy: { xLog: true, yLog: null, hidden: [1, 2], table: true } },
  };
  expect(parse(print(choices), ledger)).toEqual(choices);
  expect(print(NOTHING)).toBe('');
  expect(parse('topic=__proto__&open=__proto__&figure=__proto__:xl&text=%f', ledger)).toEqual(
    NOTHING,
  );
});

test('a name alone is a link to its claim', () => {
  expect(parse('#low-rank', ledger)).toEqual({ ...NOTHING, open: ['low-rank'], at: 'low-rank' });
  expect(parse('open=shift&topic=positions', ledger).at).toBe('shift');
  expect(parse('open=shift.copy', ledger).at).toBe('');
  for (const bad of ['#nothing', '#__proto__', '#copy ', '#'])
    expect(parse(bad, ledger)).toEqual(NOTHING);
});

test('the ledger as CSV: a row for each claim, a cell under each name', () => {
  const table = tableOf(ledger.claims, ledger.topics);
  expect(table.rows).toHaveLength(3);
  for (const each of table.rows) expect(each).toHaveLength(table.header.length);
  expect(new Set(table.header).size).toBe(table.header.length);
  const cell = (name: string, i: number) => table.rows[i][table.header.indexOf(name)];
  expect(cell('claim', 1)).toBe('low-rank');
  expect(cell('topic', 2)).toBe('Positions');
  expect([cell('verdict', 1), cell('condition', 1)]).toEqual(['holds only when', 'd is at least 8']);
  expect([cell('figure', 0), cell('from', 0), cell('to', 0)]).toEqual([0.5, 0.4, Infinity]);
  expect([cell('control verdict', 0), cell('control figure', 0)]).toEqual(['refuted', '']);
  expect([cell('trusted', 0), cell('trusted', 1)]).toEqual(['yes', 'no']);
  expect(csv(spelled(table))).toContain(',0.5,0.4,inf,');
});

test('each claim says how it was run, by itself or by its ledger', () => {
  const mixed = made([row('copy', { size: 'full', seed: 3 }), row('shift')]);
  expect(mixed.claims.map(({ size, seed }) => [size, seed])).toEqual([
    ['full', 3],
    ['small', 0],
  ]);
  const table = tableOf(mixed.claims, mixed.topics);
  const cells = ['size', 'seed'].map((name) => table.rows[0][table.header.indexOf(name)]);
  expect(cells).toEqual(['full', 3]);
});

test('filters', () => {
  const ids = (some: Partial<Choices>): string[] =>
    ledger.claims.filter((each) => matches(each, { ...NOTHING, ...some })).map((each) => each.id);
  expect(ids({})).toEqual(['copy', 'low-rank', 'shift']);
  expect(ids({ topic: 'positions' })).toEqual(['shift']);
  expect(ids({ outcomes: ['holds', 'not run'] })).toEqual(['copy', 'shift']);
  expect(ids({ doubtful: true })).toEqual(['low-rank']);
  expect(ids({ search: 'COPY  small' })).toEqual(['copy']);
  expect(ids({ search: 'copy absent' })).toEqual([]);
});
