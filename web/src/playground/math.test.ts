// Compares the playground's functions with attnlab on random instances from web/math_test_cases.py.

import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import * as math from './math';
import { normalGenerator, uniformGenerator } from './random';

type Matrix = number[][];
interface Instances {
  attention: { q: number[]; keys: Matrix; values: Matrix; beta: number; allowed: boolean[];
    weights: number[]; output: number[]; entropy: number }[];
  causal: { tokens: Matrix; query: Matrix; value: Matrix; beta: number; weights: Matrix;
    outputs: Matrix }[];
  noise: { keys: Matrix; isotropic: number; radial: number[]; normals: Matrix[]; queries: Matrix;
    values: Matrix; beta: number; mean: number[]; variance: number }[];
  features: { kind: math.FeatureKind; q: number[]; keys: Matrix; draws: Matrix; beta: number;
    weights: number[]; kernel: number[] }[];
  orthogonal: { count: number; size: number; normals: number[]; draws: Matrix }[];
  positions: { width: number; base: number; t: number; steps: number; code: number[];
    shift: Matrix; x: number[]; turned: number[] }[];
  random: { seed: number; uniforms: number[]; normals: number[] }[];
} // prettier-ignore

const instances = JSON.parse(
  readFileSync('src/playground/math-test-cases.json', 'utf8'),
) as Instances;

// Compares numbers at any depth to 1e-9, relative for large numbers.
function expectNear(actual: unknown, expected: unknown): void {
  if (Array.isArray(expected)) {
    expect(actual).toHaveLength(expected.length);
    expected.forEach((each, i) => expectNear((actual as unknown[])[i], each));
    return;
  }
  const [one, other] = [actual as number, expected as number];
  expect(Math.abs(one - other)).toBeLessThanOrEqual(1e-9 * Math.max(1, Math.abs(other)));
}

test('every function has instances', () => {
  for (const each of Object.values(instances)) expect((each as unknown[]).length).toBeGreaterThan(3);
});

test.each(instances.attention)('attention with a mask', (instance) => {
  const result = math.attention(instance.q, instance.keys, instance.values, instance.beta, instance.allowed);
  expectNear(result.weights, instance.weights);
  expectNear(result.output, instance.output);
  expectNear(math.entropy(result.weights), instance.entropy);
  const maskedAfter = math.attention(instance.q, instance.keys, instance.values, instance.beta, instance.allowed,
    'after');
  const unmasked = math.attention(instance.q, instance.keys, instance.values, instance.beta);
  expectNear(maskedAfter.weights,
    unmasked.weights.map((a, i) => (instance.allowed[i] ? a : 0))); // prettier-ignore
});

test.each(instances.causal)('causal self-attention', (instance) => {
  const values = instance.tokens.map((x) => math.multiply(instance.value, x));
  instance.tokens.forEach((x, t) => {
    const allowed = instance.tokens.map((_, s) => s <= t);
    const q = math.multiply(instance.query, x);
    const result = math.attention(q, instance.tokens, values, instance.beta, allowed);
    expectNear(result.weights, instance.weights[t]);
    expectNear(result.output, instance.outputs[t]);
  });
});

test.each(instances.noise)('noisy keys, read by several heads', (instance) => {
  const samples = instance.normals.map((sampleNormals) => {
    const keys = math.noisyKeys(instance.keys, instance.isotropic, instance.radial, sampleNormals);
    const outputs = instance.queries.map((q) => math.attention(q, keys, instance.values, instance.beta).output);
    return math.weightedSum(outputs.map(() => 1 / outputs.length), outputs); // prettier-ignore
  });
  const result = math.meanAndVariance(samples);
  expectNear(result.mean, instance.mean);
  expectNear(result.variance, instance.variance);
});

test.each(instances.features)('random features: $kind', (instance) => {
  const result = math.approximateWeights(instance.kind, instance.q, instance.keys, instance.draws, instance.beta);
  expectNear(result.weights, instance.weights);
  const scaled = (x: number[]): number[] => x.map((value) => value * Math.sqrt(instance.beta));
  const queryFeatures = math.randomFeatures(instance.kind, scaled(instance.q), instance.draws);
  const kernel = instance.keys.map((key) =>
    math.dot(queryFeatures, math.randomFeatures(instance.kind, scaled(key), instance.draws)),
  );
  expectNear(kernel, instance.kernel);
});

test.each(instances.orthogonal)('$count orthogonal directions of size $size', (each) => {
  const remaining = [...each.normals];
  expectNear(math.orthogonalDirections(each.count, each.size, () => remaining.shift() ?? NaN),
    each.draws);
  expect(remaining).toEqual([]);
});

test.each(instances.positions)('positions of width $width', (each) => {
  expectNear(math.positionCode(each.t, each.width, each.base), each.code);
  const shift = math.shiftMatrix(each.steps, each.width, each.base);
  expectNear(shift, each.shift);
  expectNear(
    math.multiply(shift, math.positionCode(each.t, each.width, each.base)),
    math.positionCode(each.t + each.steps, each.width, each.base),
  );
  expectNear(math.rotary(each.x, each.t, each.base), each.turned);
});

test.each(instances.random)('random numbers of seed $seed', (each) => {
  const uniform = uniformGenerator(each.seed);
  expectNear(each.uniforms.map(() => uniform()), each.uniforms); // prettier-ignore
  const normal = normalGenerator(each.seed);
  expectNear(each.normals.map(() => normal()), each.normals); // prettier-ignore
});

test('normal numbers have the right moments', () => {
  const normal = normalGenerator(7);
  const numbers = Array.from({ length: 100_000 }, normal);
  const moment = (power: number): number =>
    numbers.reduce((sum, x) => sum + x ** power, 0) / numbers.length;
  expect(Math.abs(moment(1))).toBeLessThan(0.015);
  expect(Math.abs(moment(2) - 1)).toBeLessThan(0.02);
  expect(Math.abs(moment(4) - 3)).toBeLessThan(0.15);
});

test('weights are 0, not NaN, if no key is allowed', () => {
  expect(math.softmax([1, 2], [false, false])).toEqual([0, 0]);
  expect(math.entropy([0, 0])).toBe(0);
  expect(math.softmax([1e5, -1e5])).toEqual([1, 0]);
});
