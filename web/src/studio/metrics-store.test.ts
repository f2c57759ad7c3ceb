import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { MetricsResponse } from './api-types';
import { metricNames, Metrics } from './metrics-store';

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

test('it continues after the last row, by the mark of the server if there is one', () => {
  const metrics = new Metrics();
  expect(metrics.mark('a')).toBe('0');
  metrics.add(part(0, 3));
  expect(metrics.mark('a')).toBe('3');
  metrics.add(part(3, 4, { mark: '4-0a1b' }));
  expect(metrics.mark('a')).toBe('4-0a1b');
  metrics.add(part(2, 3, { mark: '3-ffff' }));
  expect(metrics.mark('a')).toBe('4-0a1b');
});

test('rows in order are added, known ones are not added again', () => {
  const metrics = new Metrics();
  expect(metrics.add(part(0, 3))).toBe('added');
  expect(metrics.add(part(0, 3))).toBe('known');
  expect(metrics.add(part(1, 5))).toBe('added');
  expect(steps(metrics)).toEqual(upTo(5));
  expect(metrics.of('a')?.columns.get('loss')?.values).toEqual(upTo(5).map((step) => 1 / step));
  expect(metrics.lines('b')).toBe(0);
});

test('a gap is reported and rows after it are not added', () => {
  const metrics = new Metrics();
  metrics.add(part(0, 2));
  expect(metrics.add(part(3, 5))).toBe('gap');
  expect(metrics.lines('a')).toBe(2);
  expect(metrics.add(part(2, 5))).toBe('added');
  expect(steps(metrics)).toEqual(upTo(5));
});

test('a line without a row is counted; parts that overlap it are requested again', () => {
  const metrics = new Metrics();
  expect(metrics.add({ ...part(0, 3), rows: [row(1), row(3)] })).toBe('added');
  expect(metrics.lines('a')).toBe(3);
  expect(metrics.add({ ...part(2, 6), rows: [row(5)] })).toBe('gap');
  expect(metrics.add(part(3, 4))).toBe('added');
  expect(steps(metrics)).toEqual([1, 3, 4]);
});

test('a truncated or replaced file starts again, even if it is empty', () => {
  const metrics = new Metrics();
  metrics.add(part(0, 9));
  expect(metrics.add(part(0, 4, { again: true }))).toBe('added');
  expect(steps(metrics)).toEqual(upTo(4));
  expect(metrics.add(part(0, 0, { again: true }))).toBe('added');
  expect(steps(metrics)).toEqual([]);
});

test('with overlapping, repeated or late parts, filling gaps gives every row once', () => {
  const span = fc.tuple(fc.nat(30), fc.nat(30)).map(([one, other]) => [Math.min(one, other), Math.max(one, other)]);
  fc.assert(
    fc.property(fc.array(span, { maxLength: 20 }), (spans) => {
      const metrics = new Metrics();
      let furthest = 0;
      for (const [after, next] of spans) {
        if (metrics.add(part(after, next)) === 'gap') metrics.add(part(metrics.lines('a'), next));
        furthest = Math.max(furthest, next);
        expect(steps(metrics)).toEqual(upTo(furthest));
      }
    }),
  );
});

test('validation metrics are separated, special numbers kept, other values ignored', () => {
  const metrics = new Metrics();
  const rows = [
    { step: 1, loss: 'nan', norm: 'inf', note: 'x', done: true, validation: { loss: 2, accuracy: null } },
    { step: 2, __proto__: { loss: 3 } },
  ];
  metrics.add(part(0, 2, { rows }));
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

test('the number of metrics is limited', () => {
  const metrics = new Metrics();
  const rows = Array.from({ length: 1000 }, (_, i) => ({ step: i, [`m${i}`]: 1 }));
  metrics.add(part(0, 1000, { rows }));
  expect(metrics.of('a')!.columns.size).toBe(64);
});
