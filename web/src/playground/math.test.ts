// Against attnlab on random instances, which web/instances.py makes in float64.

import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import * as math from './math';
import { normals, uniforms } from './random';

type Matrix = number[][];
interface Instances {
  attention: { q: number[]; keys: Matrix; values: Matrix; beta: number; allowed: boolean[];
    weights: number[]; output: number[]; entropy: number }[];
  causal: { tokens: Matrix; query: Matrix; value: Matrix; beta: number; weights: Matrix;
    outputs: Matrix }[];
  noise: { keys: Matrix; isotropic: number; radial: number[]; normals: Matrix[]; queries: Matrix;
    values: Matrix; beta: number; mean: number[]; variance: number }[];
  features: { kind: math.Kind; q: number[]; keys: Matrix; draws: Matrix; beta: number;
    weights: number[]; kernel: number[] }[];
  orthogonal: { count: number; size: number; normals: number[]; draws: Matrix }[];
  positions: { width: number; base: number; t: number; steps: number; code: number[];
    shift: Matrix; x: number[]; turned: number[] }[];
  random: { seed: number; uniforms: number[]; normals: number[] }[];
} // prettier-ignore

const made = JSON.parse(
  readFileSync('src/playground/instances.json', 'utf8'),
) as Instances;

// To 1e-9, of numbers at any depth; the size of large ones counts.
function near(found: unknown, wanted: unknown): void {
  if (Array.isArray(wanted)) {
    expect(found).toHaveLength(wanted.length);
    wanted.forEach((each, i) => near((found as unknown[])[i], each));
    return;
  }
  const [one, other] = [found as number, wanted as number];
  expect(Math.abs(one - other)).toBeLessThanOrEqual(1e-9 * Math.max(1, Math.abs(other)));
}

test('there are instances of everything', () => {
  for (const each of Object.values(made)) expect((each as unknown[]).length).toBeGreaterThan(3);
});

test.each(made.attention)('attention with a mask', (each) => {
  const found = math.attend(each.q, each.keys, each.values, each.beta, each.allowed);
  near(found.weights, each.weights);
  near(found.output, each.output);
  near(math.entropy(found.weights), each.entropy);
  const after = math.attend(each.q, each.keys, each.values, each.beta, each.allowed, 'after');
  const open = math.attend(each.q, each.keys, each.values, each.beta);
  near(after.weights, open.weights.map((a, i) => (each.allowed[i] ? a : 0))); // prettier-ignore
});

test.each(made.causal)('self-attention that looks back', (each) => {
  const values = each.tokens.map((x) => math.apply(each.value, x));
  each.tokens.forEach((x, t) => {
    const allowed = each.tokens.map((_, s) => s <= t);
    const q = math.apply(each.query, x);
    const found = math.attend(q, each.tokens, values, each.beta, allowed);
    near(found.weights, each.weights[t]);
    near(found.output, each.outputs[t]);
  });
});

test.each(made.noise)('noisy keys, read by several heads', (each) => {
  const samples = each.normals.map((drawn) => {
    const keys = math.noisyKeys(each.keys, each.isotropic, each.radial, drawn);
    const outputs = each.queries.map((q) => math.attend(q, keys, each.values, each.beta).output);
    return math.mix(outputs.map(() => 1 / outputs.length), outputs); // prettier-ignore
  });
  const found = math.spread(samples);
  near(found.mean, each.mean);
  near(found.variance, each.variance);
});

test.each(made.features)('random features: $kind', (each) => {
  const found = math.featureWeights(each.kind, each.q, each.keys, each.draws, each.beta);
  near(found.weights, each.weights);
  const scaled = (x: number[]): number[] => x.map((value) => value * Math.sqrt(each.beta));
  const asked = math.features(each.kind, scaled(each.q), each.draws);
  const kernel = each.keys.map((key) =>
    math.dot(asked, math.features(each.kind, scaled(key), each.draws)),
  );
  near(kernel, each.kernel);
});

test.each(made.orthogonal)('$count orthogonal draws of size $size', (each) => {
  const left = [...each.normals];
  near(math.orthogonalDraws(each.count, each.size, () => left.shift() ?? NaN), each.draws);
  expect(left).toEqual([]);
});

test.each(made.positions)('positions of width $width', (each) => {
  near(math.positionCode(each.t, each.width, each.base), each.code);
  const shift = math.shiftMatrix(each.steps, each.width, each.base);
  near(shift, each.shift);
  near(
    math.apply(shift, math.positionCode(each.t, each.width, each.base)),
    math.positionCode(each.t + each.steps, each.width, each.base),
  );
  near(math.rotary(each.x, each.t, each.base), each.turned);
});

test.each(made.random)('draws of seed $seed', (each) => {
  const uniform = uniforms(each.seed);
  near(each.uniforms.map(() => uniform()), each.uniforms); // prettier-ignore
  const normal = normals(each.seed);
  near(each.normals.map(() => normal()), each.normals); // prettier-ignore
});

test('normal draws have the moments of normal draws', () => {
  const normal = normals(7);
  const drawn = Array.from({ length: 100_000 }, normal);
  const moment = (power: number): number =>
    drawn.reduce((sum, x) => sum + x ** power, 0) / drawn.length;
  expect(Math.abs(moment(1))).toBeLessThan(0.015);
  expect(Math.abs(moment(2) - 1)).toBeLessThan(0.02);
  expect(Math.abs(moment(4) - 3)).toBeLessThan(0.15);
});

test('nothing allowed is no weight, and no NaN', () => {
  expect(math.softmax([1, 2], [false, false])).toEqual([0, 0]);
  expect(math.entropy([0, 0])).toBe(0);
  expect(math.softmax([1e5, -1e5])).toEqual([1, 0]);
});
