import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { MetricsResponse } from './api-types';
import { metricNames, Metrics } from './metrics';

const row = (step: number) => ({ step, loss: 1 / step, seconds: step / 2, tokens: 10 * step });
const part = (after: number, next: number, more: Partial<MetricsResponse> = {}): MetricsResponse => ({
  run: 'a',
  after,
  rows: Array.from({ length: next - after }, (_, i) => row(after + i + 1)),
  next,
  again: false,
  mark: '',
  total: next,
  ...more,
});
const steps = (metrics: Metrics): number[] => metrics.of('a')?.axes.step ?? [];
const upTo = (count: number): number[] => Array.from({ length: count }, (_, i) => i + 1);

test('it goes on behind what was taken, by the mark of the server where there is one', () => {
  const metrics = new Metrics();
  expect(metrics.place('a')).toBe('0');
  metrics.take(part(0, 3));
  expect(metrics.place('a')).toBe('3');
  metrics.take(part(3, 4, { mark: '4-0a1b' }));
  expect(metrics.place('a')).toBe('4-0a1b');
  metrics.take(part(2, 3, { mark: '3-ffff' }));
  expect(metrics.place('a')).toBe('4-0a1b');
});

test('rows in order are added, what is known is not added again', () => {
  const metrics = new Metrics();
  expect(metrics.take(part(0, 3))).toBe('added');
  expect(metrics.take(part(0, 3))).toBe('known');
  expect(metrics.take(part(1, 5))).toBe('added');
  expect(steps(metrics)).toEqual(upTo(5));
  expect(metrics.of('a')?.columns.get('loss')?.values).toEqual(upTo(5).map((step) => 1 / step));
  expect(metrics.lines('b')).toBe(0);
});

test('a gap is told and nothing behind it is taken', () => {
  const metrics = new Metrics();
  metrics.take(part(0, 2));
  expect(metrics.take(part(3, 5))).toBe('gap');
  expect(metrics.lines('a')).toBe(2);
  expect(metrics.take(part(2, 5))).toBe('added');
  expect(steps(metrics)).toEqual(upTo(5));
});

test('a line that gave no row counts; what overlaps it is asked for again', () => {
  const metrics = new Metrics();
  expect(metrics.take({ ...part(0, 3), rows: [row(1), row(3)] })).toBe('added');
  expect(metrics.lines('a')).toBe(3);
  expect(metrics.take({ ...part(2, 6), rows: [row(5)] })).toBe('gap');
  expect(metrics.take(part(3, 4))).toBe('added');
  expect(steps(metrics)).toEqual([1, 3, 4]);
});

test('a file that was cut or replaced begins again, also when nothing is left of it', () => {
  const metrics = new Metrics();
  metrics.take(part(0, 9));
  expect(metrics.take(part(0, 4, { again: true }))).toBe('added');
  expect(steps(metrics)).toEqual(upTo(4));
  expect(metrics.take(part(0, 0, { again: true }))).toBe('added');
  expect(steps(metrics)).toEqual([]);
});

test('however parts overlap, are repeated or come late, asking for gaps gives every row once', () => {
  const span = fc.tuple(fc.nat(30), fc.nat(30)).map(([one, other]) => [Math.min(one, other), Math.max(one, other)]);
  fc.assert(
    fc.property(fc.array(span, { maxLength: 20 }), (spans) => {
      const metrics = new Metrics();
      let furthest = 0;
      for (const [after, next] of spans) {
        if (metrics.take(part(after, next)) === 'gap') metrics.take(part(metrics.lines('a'), next));
        furthest = Math.max(furthest, next);
        expect(steps(metrics)).toEqual(upTo(furthest));
      }
    }),
  );
});

test('validation is taken apart, what is not finite stays, what is no number is left out', () => {
  const metrics = new Metrics();
  const rows = [
    { step: 1, loss: 'nan', norm: 'inf', note: 'x', done: true, validation: { loss: 2, accuracy: null } },
    { step: 2, __proto__: { loss: 3 } },
  ];
  metrics.take(part(0, 2, { rows }));
  const columns = metrics.of('a')!.columns;
  expect([...columns.keys()].sort()).toEqual(['loss', 'norm', 'validation accuracy', 'validation loss']);
  expect(columns.get('loss')!.values).toEqual([NaN]);
  expect(columns.get('norm')!.values).toEqual([Infinity]);
  expect(metricNames([metrics.of('a'), undefined])).toEqual([
    'loss',
    'validation accuracy',
    'validation loss',
    'norm',
  ]);
});

test('many names of a stranger do not grow without end', () => {
  const metrics = new Metrics();
  const rows = Array.from({ length: 1000 }, (_, i) => ({ step: i, [`m${i}`]: 1 }));
  metrics.take(part(0, 1000, { rows }));
  expect(metrics.of('a')!.columns.size).toBe(64);
});
