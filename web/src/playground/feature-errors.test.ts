import { expect, test } from 'vitest';
import { kernelCurve, errorDecay, sampleDirections, attentionErrors } from './feature-errors';
import { dot } from './math';
import { parseFragment } from './page-state';

const defaults = parseFragment('').features;

test('sin/cos features are exact at angle 0, and positive features are never negative', () => {
  const curve = kernelCurve({ ...defaults, size: 4, power: 3 });
  expect(curve.estimates.trigonometric[0]).toBeCloseTo(curve.exact[0], 9);
  expect(curve.exact[0]).toBeCloseTo(Math.exp(4), 9);
  expect(curve.exact.at(-1)).toBeCloseTo(Math.exp(-4), 9);
  for (const each of curve.estimates.positive) expect(each).toBeGreaterThan(0);
});

test('the error falls about as 1 / sqrt(features) for small inputs', () => {
  const { counts, errors: errors } = errorDecay({ ...defaults, size: 0.5, orthogonal: false });
  for (const list of Object.values(errors)) {
    const slope = Math.log(list[9] / list[2]) / Math.log(counts[9] / counts[2]);
    expect(slope).toBeGreaterThan(-0.75);
    expect(slope).toBeLessThan(-0.25);
  }
});

test('more features reduce the error; for large inputs it exceeds that of equal weights', () => {
  const few = attentionErrors({ ...defaults, power: 2 });
  const many = attentionErrors({ ...defaults, power: 10 });
  expect(many.weights.positive).toBeLessThan(few.weights.positive / 2);
  expect(many.weights.positive).toBeLessThan(many.uniform);
  const large = attentionErrors({ ...defaults, size: 6, power: 4, orthogonal: false });
  expect(large.notPositive.positive).toBe(0);
  expect(large.notPositive.trigonometric).toBeGreaterThan(0);
  expect(large.weights.trigonometric).toBeGreaterThan(large.uniform);
});

test('inputs of size 0 have only rounding errors', () => {
  const errors = attentionErrors({ ...defaults, size: 0 });
  expect(errors.weights.positive).toBeLessThan(1e-12);
  expect(errors.uniform).toBeLessThan(1e-12);
});

test('directions are orthogonal within a block, and the same for the same seed', () => {
  const directions = sampleDirections(5, { ...defaults, d: 3 }, 1);
  expect(Math.abs(dot(directions[0], directions[1]))).toBeLessThan(1e-12);
  expect(Math.abs(dot(directions[3], directions[4]))).toBeLessThan(1e-12);
  expect(sampleDirections(5, { ...defaults, d: 3, seed: 2 }, 1)).not.toEqual(directions);
  expect(sampleDirections(5, { ...defaults, d: 3 }, 1)).toEqual(directions);
});
