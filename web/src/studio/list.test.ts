import { expect, test } from 'vitest';
import { grouped, written } from './diff';
import { found, ordered, renewed } from './list';
import type { Run } from './api-types';

const run = (id: string, more: Partial<Run> = {}): Run => ({
  id, name: id, task: 'knowledge', state: 'finished', problem: null, created: 1, updated: 5, step: 3,
  steps: 9, minutes: null, parameters: null, attention: 'softmax', headline: null, better: null,
  last: { loss: 2 }, can: ['ask'], ...more,
}); // prettier-ignore
const runs = [
  run('b10', { updated: 9, last: { loss: 'nan' } }),
  run('b9', { updated: 7, last: { loss: 0.5 }, parameters: 20 }),
  run('a', { task: 'vision', attention: 'favor', state: 'training', updated: null }),
];
const ids = (some: { id: string }[]): string[] => some.map(({ id }) => id);

test('every word is searched everywhere', () => {
  expect(ids(found(runs, ''))).toEqual(['b10', 'b9', 'a']);
  expect(ids(found(runs, 'FAVOR train'))).toEqual(['a']);
  expect(ids(found(runs, 'b knowledge'))).toEqual(['b10', 'b9']);
  expect(ids(found(runs, 'b vision'))).toEqual([]);
  expect(ids(found(runs, 'null'))).toEqual([]);
});

test('orders: numbers in names count, what is unknown comes last', () => {
  expect(ids(ordered(runs, 'name'))).toEqual(['a', 'b9', 'b10']);
  expect(ids(ordered(runs, 'updated'))).toEqual(['b10', 'b9', 'a']);
  expect(ids(ordered(runs, 'loss'))).toEqual(['b9', 'a', 'b10']);
  expect(ids(ordered(runs, 'parameters'))).toEqual(['b9', 'a', 'b10']);
});

test('what changed takes its place, what is new is added, what is gone goes', () => {
  const next = renewed(runs, { runs: [run('b9', { step: 4 }), run('c')], gone: ['a'] });
  expect(ids(next)).toEqual(['b10', 'b9', 'c']);
  expect(next[1].step).toBe(4);
});

test('settings in groups, with what differs from the first run', () => {
  const groups = grouped([
    { setting: 'seed', values: [0, 1] },
    { setting: 'model.width', values: [64, 64, 128] },
    { setting: 'model.attention', values: [['softmax', 'elu'], 'softmax'] },
    { setting: 'training.ema', values: [null, false] },
  ]);
  expect(groups.map(({ name }) => name)).toEqual(['', 'model', 'training']);
  expect(groups[1].rows[0]).toEqual({
    name: 'width', values: ['64', '64', '128'], other: [false, false, true],
  }); // prettier-ignore
  expect(groups[1].rows[1].values).toEqual(['softmax, elu', 'softmax']);
  expect(groups[2].rows[0].values).toEqual(['–', 'no']);
  expect([2 / 15, 123456789, 3e-4].map(written)).toEqual(['0.1333333', '123456789', '0.0003']);
  expect(written({ a: -1 })).toBe('{"a":-1}');
});
