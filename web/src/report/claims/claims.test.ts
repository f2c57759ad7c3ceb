import { expect, test } from 'vitest';
import { matches, NO_CHOICES, parseChoices, printChoices, type Choices } from './page-choices';
import { toCsv } from '../../shared/csv';
import { spellSpecialNumbers } from '../plot-data';
import { formatControlVerdict, formatInterval, readLedger, claimsTable, formatVerdict, type Ledger } from './ledger';

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

const makeLedger = (claims: object[]): Ledger =>
  readLedger({
    format: 'attnlab-claims',
    version: 2,
    seed: 0,
    size: 'small',
    versions: { attnlab: '0' },
    topics: { retrieve: 'What one query can retrieve', positions: 'Positions', own: 'Own' },
    claims,
  });

const ledger = makeLedger([
  row('copy'),
  row('low-rank', { outcome: 'holds only when', condition: 'd is at least 8', trusted: false }),
  row('shift', { topic: 'positions', outcome: 'not run', condition: 'needs a model' }),
]);

test('only used topics are listed, with their numbers', () => {
  expect(ledger.topics.map(({ id, number }) => [id, number])).toEqual([
    ['retrieve', 1],
    ['positions', 2],
  ]);
});

test('verdicts as text', () => {
  const [copy, rank, shift] = ledger.claims;
  expect(formatVerdict(copy)).toBe('holds');
  expect(formatVerdict(rank)).toBe('holds only when d is at least 8');
  expect(formatVerdict(shift)).toBe('not run: needs a model');
  expect(formatControlVerdict(copy)).toBe('refuted');
  expect(formatControlVerdict(rank)).toContain('should disagree');
  expect(copy.figure && formatInterval(copy.figure)).toBe('0.4 to ∞');
  expect(copy.details).toEqual([
    ['n', '3'],
    ['kind', 'x'],
  ]);
});

test('other data is rejected, odd values in a ledger are not', () => {
  expect(() => readLedger({ format: 'other' })).toThrow('not a ledger');
  expect(() => readLedger({ format: 'attnlab-claims', version: 3 })).toThrow('version 3');
  const odd = makeLedger([{ id: 'x', outcome: 'maybe', plot: 7, figure: 'no', control: null }]);
  expect(odd.claims[0].outcome).toBeNull();
  expect(formatVerdict(odd.claims[0])).toBe('not judged');
});

test('choices survive the address', () => {
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
  expect(parseChoices(printChoices(choices), ledger)).toEqual(choices);
  expect(printChoices(NO_CHOICES)).toBe('');
  expect(parseChoices('topic=__proto__&open=__proto__&figure=__proto__:xl&text=%f', ledger)).toEqual(
    NO_CHOICES,
  );
});

test('a name alone opens its claim', () => {
  expect(parseChoices('#low-rank', ledger)).toEqual({ ...NO_CHOICES, open: ['low-rank'], at: 'low-rank' });
  expect(parseChoices('open=shift&topic=positions', ledger).at).toBe('shift');
  expect(parseChoices('open=shift.copy', ledger).at).toBe('');
  for (const bad of ['#nothing', '#__proto__', '#copy ', '#'])
    expect(parseChoices(bad, ledger)).toEqual(NO_CHOICES);
});

test('the ledger as CSV: one row per claim, one cell per column', () => {
  const table = claimsTable(ledger.claims, ledger.topics);
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
  expect(toCsv(spellSpecialNumbers(table))).toContain(',0.5,0.4,inf,');
});

test('size and seed come from the claim or from its ledger', () => {
  const mixed = makeLedger([row('copy', { size: 'full', seed: 3 }), row('shift')]);
  expect(mixed.claims.map(({ size, seed }) => [size, seed])).toEqual([
    ['full', 3],
    ['small', 0],
  ]);
  const table = claimsTable(mixed.claims, mixed.topics);
  const cells = ['size', 'seed'].map((name) => table.rows[0][table.header.indexOf(name)]);
  expect(cells).toEqual(['full', 3]);
});

test('filters', () => {
  const ids = (some: Partial<Choices>): string[] =>
    ledger.claims.filter((each) => matches(each, { ...NO_CHOICES, ...some })).map((each) => each.id);
  expect(ids({})).toEqual(['copy', 'low-rank', 'shift']);
  expect(ids({ topic: 'positions' })).toEqual(['shift']);
  expect(ids({ outcomes: ['holds', 'not run'] })).toEqual(['copy', 'shift']);
  expect(ids({ doubtful: true })).toEqual(['low-rank']);
  expect(ids({ search: 'COPY  small' })).toEqual(['copy']);
  expect(ids({ search: 'copy absent' })).toEqual([]);
});
