// Random features against the kernel they stand for.

import { dot, features, length, orthogonalDraws, softmax } from './math';
import type { Kind, Matrix, Vector } from './math';
import { normals } from './random';
import type { FeatureChoices } from './state';

export const KINDS: Kind[] = ['positive', 'trigonometric'];
const ANGLES = 49;
const KEYS = 48;
const QUERIES = 16;
const PAIRS = 16;
const REPEATS = 4;
const MOST = 10; // 2^10 features

// As many directions as the features need: a sine and a cosine share one.
export function directions(kind: Kind, count: number): number {
  return kind === 'positive' ? count : count / 2;
}

const kept = new Map<string, Matrix>(); // orthogonal ones take a while

export function draws(count: number, choices: FeatureChoices, stream: number): Matrix {
  const key = [count, choices.d, choices.orthogonal, choices.seed, stream].join(' ');
  const known = kept.get(key) ?? fresh(count, choices, stream);
  if (kept.size > 20) kept.clear();
  kept.set(key, known);
  return known;
}

function fresh(count: number, choices: FeatureChoices, stream: number): Matrix {
  const normal = normals(choices.seed * 1009 + stream);
  if (choices.orthogonal) return orthogonalDraws(count, choices.d, normal);
  return Array.from({ length: count }, () => Array.from({ length: choices.d }, normal));
}

// All inputs below are scaled, so that exp(x.y) is the kernel exp(q.k / sqrt(d)).
function onSphere(count: number, { d, size, seed }: FeatureChoices, stream: number): Matrix {
  const normal = normals(seed * 1009 + stream);
  return Array.from({ length: count }, () => {
    const x = Array.from({ length: d }, normal);
    const by = Math.sqrt(size) / (length(x) || 1);
    return x.map((each) => each * by);
  });
}

export interface Curve {
  angles: number[]; // degrees
  exact: number[];
  estimates: Record<Kind, number[]>;
}

// The kernel of two inputs of the same length, by the angle between them.
export function curve(choices: FeatureChoices): Curve {
  const [x, other] = onSphere(2, { ...choices, size: 1 }, 1);
  const along = dot(x, other);
  const left = other.map((each, i) => each - along * x[i]);
  const by = length(left) || 1;
  const aside = left.map((each) => each / by);
  const r = Math.sqrt(choices.size);
  const q = x.map((each) => r * each);
  const angles = Array.from({ length: ANGLES }, (_, i) => (180 * i) / (ANGLES - 1));
  const keys = angles.map((angle) => {
    const turn = (angle * Math.PI) / 180;
    return x.map((each, i) => r * (Math.cos(turn) * each + Math.sin(turn) * aside[i]));
  });
  return {
    angles,
    exact: keys.map((key) => Math.exp(dot(q, key))),
    estimates: byKind((kind) => {
      const drawn = draws(directions(kind, 2 ** choices.power), choices, 2);
      const asked = features(kind, q, drawn);
      return keys.map((key) => dot(asked, features(kind, key, drawn)));
    }),
  };
}

function byKind<T>(make: (kind: Kind) => T): Record<Kind, T> {
  return { positive: make('positive'), trigonometric: make('trigonometric') };
}

export interface Errors {
  weights: Record<Kind, number>; // half of sum |difference|: the weight that stands elsewhere
  uniform: number; // the same of equal weights, the control
  bad: Record<Kind, number>; // queries whose denominator is not positive
  queries: number;
}

// Of attention over random keys.
export function errors(choices: FeatureChoices): Errors {
  const keys = onSphere(KEYS, choices, 3);
  const queries = onSphere(QUERIES, choices, 4);
  const exact = queries.map((q) => softmax(keys.map((key) => dot(q, key))));
  const apart = (one: Vector, other: Vector): number =>
    one.reduce((sum, each, i) => sum + Math.abs(each - other[i]), 0) / 2;
  const mean = (list: number[]): number => list.reduce((sum, each) => sum + each, 0) / list.length;
  const equal = keys.map(() => 1 / KEYS);
  const found = byKind((kind) => {
    const drawn = draws(directions(kind, 2 ** choices.power), choices, 2);
    const kept = keys.map((key) => features(kind, key, drawn));
    let bad = 0;
    const apartness = queries.map((q, row) => {
      const asked = features(kind, q, drawn);
      const kernel = kept.map((each) => dot(asked, each));
      const sum = kernel.reduce((total, each) => total + each, 0);
      if (!(sum > 0)) bad += 1;
      const weights = kernel.map((each) => (sum === 0 ? 0 : each / sum));
      return apart(weights, exact[row]);
    });
    return { error: mean(apartness), bad };
  });
  return {
    weights: byKind((kind) => found[kind].error),
    uniform: mean(exact.map((each) => apart(each, equal))),
    bad: byKind((kind) => found[kind].bad),
    queries: QUERIES,
  };
}

export interface Decay {
  counts: number[];
  errors: Record<Kind, number[]>;
}

// Root mean square of the kernel's relative error, by the number of features: the first ones of
// one long list of draws, so that a single pass gives all sizes.
export function decay(choices: FeatureChoices): Decay {
  const counts = Array.from({ length: MOST }, (_, i) => 2 ** (i + 1));
  const [xs, ys] = [onSphere(PAIRS, choices, 5), onSphere(PAIRS, choices, 6)];
  const squares = byKind(() => counts.map(() => 0));
  const stops = byKind((kind) => new Map(counts.map((count, i) => [directions(kind, count), i])));
  for (let again = 0; again < REPEATS; again += 1) {
    const drawn = draws(2 ** MOST, choices, 7 + again);
    xs.forEach((x, pair) => {
      const y = ys[pair];
      const exact = Math.exp(dot(x, y));
      const half = (dot(x, x) + dot(y, y)) / 2;
      const factor = Math.exp(half);
      const sum = { positive: 0, trigonometric: 0 };
      drawn.forEach((w, i) => {
        const [a, b] = [dot(w, x), dot(w, y)];
        sum.positive += Math.exp(a + b - half);
        sum.trigonometric += factor * Math.cos(a - b);
        for (const kind of KINDS) {
          const at = stops[kind].get(i + 1);
          if (at !== undefined) squares[kind][at] += (sum[kind] / (i + 1) / exact - 1) ** 2;
        }
      });
    });
  }
  return {
    counts,
    errors: byKind((kind) => squares[kind].map((each) => Math.sqrt(each / PAIRS / REPEATS))),
  };
}
