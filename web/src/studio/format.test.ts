import { expect, test } from 'vitest';
import { formatAge, formatBytes, formatCount, formatMetric, formatPercent, quoteForShell } from './format';

test('sizes', () => {
  expect([0, 999, 1000, 5203000, 999999, null].map(formatBytes)).toEqual([
    '0 B', '999 B', '1 kB', '5.2 MB', '1 MB', '–',
  ]); // prettier-ignore
});

test('times', () => {
  const now = 1e9;
  const past = [3, 59, 61, 3599, 7300, 90000, 400000, -20].map((each) => formatAge(now - each, now));
  expect(past).toEqual(['now', '59 s ago', '1 min ago', '59 min ago', '2 h ago', 'yesterday', '4 days ago', 'now']);
  expect(formatAge(null)).toBe('–');
});

test('NaN is not a missing value', () => {
  expect([0.5, NaN, Infinity, null].map(formatMetric)).toEqual(['0.5', 'NaN', '∞', '–']);
});

test('counts', () => {
  expect([0, 1234, 12345, 1299840, 2.5e9, null].map(formatCount)).toEqual([
    '0', '1,234', '12.3 k', '1.3 M', '2.5 G', '–',
  ]); // prettier-ignore
});

test('percentages: 0% and 100% only for exactly 0 and 1', () => {
  expect([0, 1, 0.5, 0.004, 0.9996, 0.0001, 0.997, NaN, null].map(formatPercent)).toEqual([
    '0%', '100%', '50%', '0.4%', '> 99.9%', '< 0.1%', '99.7%', '–', '–',
  ]); // prettier-ignore
});

test('a path is quoted as one word', () => {
  expect(['runs/a-b_1.5', 'my runs/a', "$(x); 'y' `z`", '', 'ä'].map(quoteForShell)).toEqual([
    'runs/a-b_1.5', "'my runs/a'", "'$(x); '\\''y'\\'' `z`'", "''", "'ä'",
  ]); // prettier-ignore
});
