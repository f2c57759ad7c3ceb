import fc from 'fast-check';
import { expect, test } from 'vitest';
import { formatBrief, formatFixed, formatLong, formatPercent, formatShort } from './number-format';
import { createScale, createTicks } from './scales';

test.each([
  [0, '0'],
  [null, '–'],
  [NaN, '–'],
  [-Infinity, '−∞'],
  [1234567, '1,234,567'],
  [0.0123456, '0.01235'],
  [-12.5, '−12.5'],
  [1.5e-7, '1.5e−7'],
  [2.5e9, '2.5e9'],
  [999999.5, '1,000,000'],
])('%s', (value, text) => {
  expect(formatShort(value)).toBe(text);
});

test('a readout has more digits', () => {
  expect(formatLong(0.0123456)).toBe('0.0123456');
  expect(formatBrief(0.0123456)).toBe('0.0123');
  expect([formatPercent(0.5), formatPercent(0.1234), formatPercent(-1), formatPercent(null)]).toEqual(['50%', '12.3%', '−100%', '–']);
  expect(formatFixed(-0.001, 2)).toBe('0.00');
  expect(formatFixed(-1.25, 1)).toMatch(/^−1\.[23]$/);
});

const finite = fc.double({ noNaN: true, noDefaultInfinity: true });

test('every axis contains its values in order, and its ticks differ', () => {
  fc.assert(
    fc.property(fc.array(finite, { minLength: 1, maxLength: 8 }), fc.boolean(), (all, log) => {
      const values = log ? all.map((each) => Math.abs(each) + 1e-300) : all;
      const scale = createScale(values, [0, 100], log, 0.04);
      const [low, high] = scale.domain();
      expect(low).toBeLessThan(high);
      const places = [...values].sort((a, b) => a - b).map((each) => scale(each));
      for (const [i, at] of places.entries()) {
        expect(at).toBeGreaterThanOrEqual(-1e-6);
        expect(at).toBeLessThanOrEqual(100 + 1e-6);
        if (i) expect(at).toBeGreaterThanOrEqual(places[i - 1] - 1e-9);
      }
      const ticks = createTicks(scale, log, 5);
      expect(ticks.length).toBeLessThan(20);
      expect(new Set(ticks.map((each) => each.at)).size).toBe(ticks.length);
      expect(ticks.every((each) => each.text.length < 25)).toBe(true);
    }),
  );
});

test('the largest and smallest numbers', () => {
  const scale = createScale([1e-308, Number.MAX_VALUE], [0, 1], true, 0.06);
  const [low, high] = scale.domain();
  expect(low).toBeGreaterThan(0);
  expect(high).toBeLessThan(Infinity);
  expect(createTicks(scale, true, 5).length).toBeLessThan(20);
});

test('round ticks', () => {
  const axis = (low: number, high: number, log = false): string[] =>
    createTicks(createScale([low, high], [0, 1], log), log, 5).map((each) => each.text);
  expect(axis(0, 1)).toEqual(['0.0', '0.2', '0.4', '0.6', '0.8', '1.0']);
  expect(axis(1, 10000, true)).toEqual(['1', '10', '100', '1,000', '10,000']);
  expect(axis(1e-16, 1, true)[0]).toBe('10⁻¹⁵');
  expect(axis(2, 60, true)).toEqual(['2', '5', '10', '20', '50']);
  expect(axis(20992, 166208, true)).toEqual(['50,000', '100,000']); // not 110,000, 120,000, ... too
  const wide = createTicks(createScale([20992, 166208], [0, 1300], true), true, 20).map((each) => each.text);
  expect(wide).toEqual(['50,000', '100,000']); // no text over another
  expect(axis(99, 101, true).length).toBeGreaterThan(2);
  expect(axis(-2e9, 2e9)).toContain('2e9');
});

test('fractions and errors start at 0, not below', () => {
  expect(createScale([0, 0], [0, 1], false).domain()).toEqual([0, 1]);
});
