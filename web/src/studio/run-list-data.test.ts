import { expect, test } from 'vitest';
import { groupSettings, formatSetting } from './settings-diff';
import { searchRuns, sortRuns, updateRuns } from './run-list-data';
import type { RunSummary } from './api-types';

const run = (id: string, more: Partial<RunSummary> = {}): RunSummary => ({
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

test('every word must match somewhere', () => {
  expect(ids(searchRuns(runs, ''))).toEqual(['b10', 'b9', 'a']);
  expect(ids(searchRuns(runs, 'FAVOR train'))).toEqual(['a']);
  expect(ids(searchRuns(runs, 'b knowledge'))).toEqual(['b10', 'b9']);
  expect(ids(searchRuns(runs, 'b vision'))).toEqual([]);
  expect(ids(searchRuns(runs, 'null'))).toEqual([]);
});

test('sorting: numbers in names count, unknown values come last', () => {
  expect(ids(sortRuns(runs, 'name'))).toEqual(['a', 'b9', 'b10']);
  expect(ids(sortRuns(runs, 'updated'))).toEqual(['b10', 'b9', 'a']);
  expect(ids(sortRuns(runs, 'loss'))).toEqual(['b9', 'a', 'b10']);
  expect(ids(sortRuns(runs, 'parameters'))).toEqual(['b9', 'a', 'b10']);
});

test('changed runs are replaced, new ones added, deleted ones removed', () => {
  const next = updateRuns(runs, { runs: [run('b9', { step: 4 }), run('c')], gone: ['a'] });
  expect(ids(next)).toEqual(['b10', 'b9', 'c']);
  expect(next[1].step).toBe(4);
});

test('settings are grouped and compared with the first run', () => {
  const groups = groupSettings([
    { setting: 'seed', values: [0, 1] },
    { setting: 'model.width', values: [64, 64, 128] },
    { setting: 'model.attention', values: [['softmax', 'elu'], 'softmax'] },
    { setting: 'training.ema', values: [null, false] },
  ]);
  expect(groups.map(({ name }) => name)).toEqual(['', 'model', 'training']);
  expect(groups[1].rows[0]).toEqual({
    name: 'width', values: ['64', '64', '128'], differs: [false, false, true],
  }); // prettier-ignore
  expect(groups[1].rows[1].values).toEqual(['softmax, elu', 'softmax']);
  expect(groups[2].rows[0].values).toEqual(['–', 'no']);
  expect([2 / 15, 123456789, 3e-4].map(formatSetting)).toEqual(['0.1333333', '123456789', '0.0003']);
  expect(formatSetting({ a: -1 })).toBe('{"a":-1}');
});
