import { expect, test } from 'vitest';
import { curve, decay, draws, errors } from './compare';
import { dot } from './math';
import { parse } from './state';

const start = parse('').features;

test('sin/cos features are exact at angle 0, positive ones never negative', () => {
  const found = curve({ ...start, size: 4, power: 3 });
  expect(found.estimates.trigonometric[0]).toBeCloseTo(found.exact[0], 9);
  expect(found.exact[0]).toBeCloseTo(Math.exp(4), 9);
  expect(found.exact.at(-1)).toBeCloseTo(Math.exp(-4), 9);
  for (const each of found.estimates.positive) expect(each).toBeGreaterThan(0);
});

test('the error falls about as 1 / sqrt(features) where the kernel is resolvable', () => {
  const { counts, errors: found } = decay({ ...start, size: 0.5, orthogonal: false });
  for (const list of Object.values(found)) {
    const slope = Math.log(list[9] / list[2]) / Math.log(counts[9] / counts[2]);
    expect(slope).toBeGreaterThan(-0.75);
    expect(slope).toBeLessThan(-0.25);
  }
});

test('more features, less weight on wrong keys; large inputs lose to equal weights', () => {
  const few = errors({ ...start, power: 2 });
  const many = errors({ ...start, power: 10 });
  expect(many.weights.positive).toBeLessThan(few.weights.positive / 2);
  expect(many.weights.positive).toBeLessThan(many.uniform);
  const large = errors({ ...start, size: 6, power: 4, orthogonal: false });
  expect(large.bad.positive).toBe(0);
  expect(large.bad.trigonometric).toBeGreaterThan(0);
  expect(large.weights.trigonometric).toBeGreaterThan(large.uniform);
});

test('inputs without size have no error but rounding', () => {
  const found = errors({ ...start, size: 0 });
  expect(found.weights.positive).toBeLessThan(1e-12);
  expect(found.uniform).toBeLessThan(1e-12);
});

test('draws: orthogonal within a block, and the same for the same seed', () => {
  const found = draws(5, { ...start, d: 3 }, 1);
  expect(Math.abs(dot(found[0], found[1]))).toBeLessThan(1e-12);
  expect(Math.abs(dot(found[3], found[4]))).toBeLessThan(1e-12);
  expect(draws(5, { ...start, d: 3, seed: 2 }, 1)).not.toEqual(found);
  expect(draws(5, { ...start, d: 3 }, 1)).toEqual(found);
});
