import fc from 'fast-check';
import { expect, test } from 'vitest';
import { extent, fixed, long, placeOn, roomy, short, ticksOf, type Axis } from './numbers';

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
  expect(short(value)).toBe(text);
});

test('a readout has more digits', () => {
  expect(long(0.0123456)).toBe('0.0123456');
  expect(fixed(-0.001, 2)).toBe('0.00');
  expect(fixed(-1.25, 1)).toMatch(/^−1\.[23]$/);
});

const finite = fc.double({ noNaN: true, noDefaultInfinity: true });

test('every axis has its values within, in order, and ticks that differ', () => {
  fc.assert(
    fc.property(fc.array(finite, { minLength: 1, maxLength: 8 }), fc.boolean(), (all, log) => {
      const values = log ? all.map((each) => Math.abs(each) + 1e-300) : all;
      const [low, high] = roomy(extent(values, log), log);
      expect(low).toBeLessThan(high);
      const axis: Axis = { low, high, start: 0, end: 100, log };
      const places = [...values].sort((a, b) => a - b).map((each) => placeOn(axis, each));
      for (const [i, at] of places.entries()) {
        expect(at).toBeGreaterThanOrEqual(-1e-6);
        expect(at).toBeLessThanOrEqual(100 + 1e-6);
        if (i) expect(at).toBeGreaterThanOrEqual(places[i - 1] - 1e-9);
      }
      const ticks = ticksOf(axis);
      expect(ticks.length).toBeLessThan(20);
      expect(new Set(ticks.map((each) => each.value)).size).toBe(ticks.length);
    }),
  );
});

test('the farthest ends there are', () => {
  const [low, high] = roomy(extent([1e-308, Number.MAX_VALUE], true), true, 0.06);
  expect(low).toBeGreaterThan(0);
  expect(high).toBeLessThan(Infinity);
  expect(ticksOf({ low, high, start: 0, end: 1, log: true }).length).toBeLessThan(20);
});

test('round ticks', () => {
  const axis = (low: number, high: number, log = false): string[] =>
    ticksOf({ low, high, start: 0, end: 1, log }).map((each) => each.text);
  expect(axis(0, 1)).toEqual(['0.0', '0.2', '0.4', '0.6', '0.8', '1.0']);
  expect(axis(1, 10000, true)).toEqual(['1', '10', '100', '1,000', '10,000']);
  expect(axis(1e-16, 1, true)[0]).toBe('10⁻¹⁶');
  expect(axis(2, 60, true)).toEqual(['2', '5', '10', '20', '50']);
});

test('nothing but 0 stands at the lower end: shares and errors are not below it', () => {
  expect(extent([0, 0], false)).toEqual([0, 1]);
});
