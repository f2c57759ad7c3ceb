// Errors of random features, compared with the kernel they approximate.

import { dot, randomFeatures, norm, orthogonalDirections, softmax } from './math';
import type { FeatureKind, Matrix, Vector } from './math';
import { normalGenerator } from './random';
import type { FeatureChoices } from './page-state';

export const FEATURE_KINDS: FeatureKind[] = ['positive', 'trigonometric'];
const ANGLE_COUNT = 49;
const KEY_COUNT = 48;
const QUERY_COUNT = 16;
const PAIR_COUNT = 16;
const REPEAT_COUNT = 4;
const MAX_POWER = 10; // 2^10 features

// The number of directions for a number of features: a sine and a cosine share one direction.
export function directionCount(kind: FeatureKind, count: number): number {
  return kind === 'positive' ? count : count / 2;
}

const directionCache = new Map<string, Matrix>(); // orthogonal directions take a while

export function sampleDirections(count: number, choices: FeatureChoices, stream: number): Matrix {
  const key = [count, choices.d, choices.orthogonal, choices.seed, stream].join(' ');
  const sampled = directionCache.get(key) ?? newDirections(count, choices, stream);
  if (directionCache.size > 20) directionCache.clear();
  directionCache.set(key, sampled);
  return sampled;
}

function newDirections(count: number, choices: FeatureChoices, stream: number): Matrix {
  const normal = normalGenerator(choices.seed * 1009 + stream);
  if (choices.orthogonal) return orthogonalDirections(count, choices.d, normal);
  return Array.from({ length: count }, () => Array.from({ length: choices.d }, normal));
}

// Random inputs of one length, scaled so that exp(x.y) is the kernel exp(q.k / sqrt(d)).
function inputsOnSphere(count: number, { d, size, seed }: FeatureChoices, stream: number): Matrix {
  const normal = normalGenerator(seed * 1009 + stream);
  return Array.from({ length: count }, () => {
    const x = Array.from({ length: d }, normal);
    const factor = Math.sqrt(size) / (norm(x) || 1);
    return x.map((each) => each * factor);
  });
}

export interface KernelCurve {
  angles: number[]; // degrees
  exact: number[];
  estimates: Record<FeatureKind, number[]>;
}

// The kernel of two inputs of the same length, as a function of the angle between them.
export function kernelCurve(choices: FeatureChoices): KernelCurve {
  const [x, other] = inputsOnSphere(2, { ...choices, size: 1 }, 1);
  const projection = dot(x, other);
  const orthogonalPart = other.map((each, i) => each - projection * x[i]);
  const orthogonalNorm = norm(orthogonalPart) || 1;
  const orthogonalUnit = orthogonalPart.map((each) => each / orthogonalNorm);
  const radius = Math.sqrt(choices.size);
  const q = x.map((each) => radius * each);
  const angles = Array.from({ length: ANGLE_COUNT }, (_, i) => (180 * i) / (ANGLE_COUNT - 1));
  const keys = angles.map((angle) => {
    const radians = (angle * Math.PI) / 180;
    return x.map(
      (each, i) => radius * (Math.cos(radians) * each + Math.sin(radians) * orthogonalUnit[i]),
    );
  });
  return {
    angles,
    exact: keys.map((key) => Math.exp(dot(q, key))),
    estimates: byKind((kind) => {
      const directions = sampleDirections(directionCount(kind, 2 ** choices.power), choices, 2);
      const queryFeatures = randomFeatures(kind, q, directions);
      return keys.map((key) => dot(queryFeatures, randomFeatures(kind, key, directions)));
    }),
  };
}

function byKind<T>(make: (kind: FeatureKind) => T): Record<FeatureKind, T> {
  return { positive: make('positive'), trigonometric: make('trigonometric') };
}

export interface AttentionErrors {
  weights: Record<FeatureKind, number>; // half of sum |difference|: the weight on wrong keys
  uniform: number; // the same for equal weights, as a baseline
  notPositive: Record<FeatureKind, number>; // queries whose denominator is not positive
  queries: number;
}

// Errors of attention weights over random keys.
export function attentionErrors(choices: FeatureChoices): AttentionErrors {
  const keys = inputsOnSphere(KEY_COUNT, choices, 3);
  const queries = inputsOnSphere(QUERY_COUNT, choices, 4);
  const exact = queries.map((q) => softmax(keys.map((key) => dot(q, key))));
  const wrongWeight = (one: Vector, other: Vector): number =>
    one.reduce((sum, each, i) => sum + Math.abs(each - other[i]), 0) / 2;
  const mean = (list: number[]): number => list.reduce((sum, each) => sum + each, 0) / list.length;
  const equalWeights = keys.map(() => 1 / KEY_COUNT);
  const results = byKind((kind) => {
    const directions = sampleDirections(directionCount(kind, 2 ** choices.power), choices, 2);
    const keyFeatures = keys.map((key) => randomFeatures(kind, key, directions));
    let notPositive = 0;
    const errors = queries.map((q, row) => {
      const queryFeatures = randomFeatures(kind, q, directions);
      const kernel = keyFeatures.map((each) => dot(queryFeatures, each));
      const sum = kernel.reduce((total, each) => total + each, 0);
      if (!(sum > 0)) notPositive += 1;
      const weights = kernel.map((each) => (sum === 0 ? 0 : each / sum));
      return wrongWeight(weights, exact[row]);
    });
    return { error: mean(errors), notPositive };
  });
  return {
    weights: byKind((kind) => results[kind].error),
    uniform: mean(exact.map((each) => wrongWeight(each, equalWeights))),
    notPositive: byKind((kind) => results[kind].notPositive),
    queries: QUERY_COUNT,
  };
}

export interface ErrorDecay {
  counts: number[];
  errors: Record<FeatureKind, number[]>;
}

// Root mean square of the kernel's relative error, as a function of the number of features. All
// numbers of features use the first entries of one long list, so that a single pass is enough.
export function errorDecay(choices: FeatureChoices): ErrorDecay {
  const counts = Array.from({ length: MAX_POWER }, (_, i) => 2 ** (i + 1));
  const [xs, ys] = [inputsOnSphere(PAIR_COUNT, choices, 5), inputsOnSphere(PAIR_COUNT, choices, 6)];
  const squares = byKind(() => counts.map(() => 0));
  const countIndices = byKind(
    (kind) => new Map(counts.map((count, i) => [directionCount(kind, count), i])),
  );
  for (let repeat = 0; repeat < REPEAT_COUNT; repeat += 1) {
    const directions = sampleDirections(2 ** MAX_POWER, choices, 7 + repeat);
    xs.forEach((x, pair) => {
      const y = ys[pair];
      const exact = Math.exp(dot(x, y));
      const halfNorms = (dot(x, x) + dot(y, y)) / 2;
      const factor = Math.exp(halfNorms);
      const sum = { positive: 0, trigonometric: 0 };
      directions.forEach((w, i) => {
        const [a, b] = [dot(w, x), dot(w, y)];
        sum.positive += Math.exp(a + b - halfNorms);
        sum.trigonometric += factor * Math.cos(a - b);
        for (const kind of FEATURE_KINDS) {
          const index = countIndices[kind].get(i + 1);
          if (index !== undefined) squares[kind][index] += (sum[kind] / (i + 1) / exact - 1) ** 2;
        }
      });
    });
  }
  return {
    counts,
    errors: byKind((kind) =>
      squares[kind].map((each) => Math.sqrt(each / PAIR_COUNT / REPEAT_COUNT)),
    ),
  };
}
