// The mathematics of the playground: pure functions, tested against attnlab on random instances
// (math-test-cases.json, written by web/math_test_cases.py).
//
// Letters as in the claims: keys k_i, values v_i, query q, weights a = softmax(b K q), output
// c = sum a_i v_i.

export type Vector = number[];
export type Matrix = number[][];

export function dot(one: Vector, other: Vector): number {
  let sum = 0;
  for (let i = 0; i < one.length; i += 1) sum += one[i] * other[i];
  return sum;
}

export function multiply(matrix: Matrix, x: Vector): Vector {
  return matrix.map((row) => dot(row, x));
}

export function norm(x: Vector): number {
  return Math.sqrt(dot(x, x));
}

// Weighted sum of rows.
export function weightedSum(weights: Vector, rows: Matrix): Vector {
  const sum = new Array<number>(rows[0]?.length ?? 0).fill(0);
  rows.forEach((row, i) => row.forEach((x, j) => (sum[j] += weights[i] * x)));
  return sum;
}

// All weights are 0 if no key is allowed.
export function softmax(scores: Vector, allowed?: boolean[]): Vector {
  const masked = scores.map((score, i) => (allowed && !allowed[i] ? -Infinity : score));
  const largest = Math.max(...masked);
  if (largest === -Infinity) return masked.map(() => 0);
  const exponentials = masked.map((score) => Math.exp(score - largest));
  const sum = exponentials.reduce((total, each) => total + each, 0);
  return exponentials.map((each) => each / sum);
}

export interface AttentionResult {
  weights: Vector;
  output: Vector;
}

export type MaskMode = 'before' | 'after'; // mask before or after the softmax

// With a mask after the softmax the remaining weights do not sum to 1.
export function attention(
  q: Vector,
  keys: Matrix,
  values: Matrix,
  beta: number,
  allowed?: boolean[],
  mask: MaskMode = 'before',
): AttentionResult {
  const scores = keys.map((key) => beta * dot(key, q));
  const weights =
    mask === 'before'
      ? softmax(scores, allowed)
      : softmax(scores).map((each, i) => (allowed && !allowed[i] ? 0 : each));
  return { weights, output: weightedSum(weights, values) };
}

// In nats. Keys of weight 0 add nothing.
export function entropy(weights: Vector): number {
  return weights.reduce((sum, a) => (a > 0 ? sum - a * Math.log(a) : sum), 0);
}

// k_i ~ N(mu_i, isotropic I + radial_i mu_i mu_i^T), from d + 1 normal numbers per key.
export function noisyKeys(
  keys: Matrix,
  isotropic: number,
  radial: Vector,
  normals: Matrix,
): Matrix {
  return keys.map((key, i) => {
    const lengthFactor = 1 + Math.sqrt(radial[i]) * normals[i][key.length];
    return key.map((x, j) => x * lengthFactor + Math.sqrt(isotropic) * normals[i][j]);
  });
}

export interface MeanAndVariance {
  mean: Vector;
  variance: number; // summed over the coordinates
}

export function meanAndVariance(samples: Matrix): MeanAndVariance {
  const mean = weightedSum(new Array<number>(samples.length).fill(1 / samples.length), samples);
  let sum = 0;
  for (const sample of samples) sample.forEach((x, j) => (sum += (x - mean[j]) ** 2));
  return { mean, variance: samples.length > 1 ? sum / (samples.length - 1) : 0 };
}

// Random features phi: the expectation of phi(x).phi(y) is exp(x.y).

export type FeatureKind = 'positive' | 'trigonometric';

export function randomFeatures(kind: FeatureKind, x: Vector, directions: Matrix): Vector {
  const half = dot(x, x) / 2;
  const scale = Math.sqrt(directions.length);
  const projections = directions.map((w) => dot(w, x));
  if (kind === 'positive') return projections.map((each) => Math.exp(each - half) / scale);
  const factor = Math.exp(half) / scale;
  return [
    ...projections.map((angle) => factor * Math.cos(angle)),
    ...projections.map((angle) => factor * Math.sin(angle)),
  ];
}

export interface ApproximateWeights {
  weights: Vector;
  denominator: number;
}

// Attention weights from random features. Inputs are scaled so that exp(b q.k) is the kernel.
export function approximateWeights(
  kind: FeatureKind,
  q: Vector,
  keys: Matrix,
  directions: Matrix,
  beta: number,
): ApproximateWeights {
  const scaled = (x: Vector): Vector => x.map((each) => each * Math.sqrt(beta));
  const queryFeatures = randomFeatures(kind, scaled(q), directions);
  const kernel = keys.map((key) =>
    dot(queryFeatures, randomFeatures(kind, scaled(key), directions)),
  );
  const denominator = kernel.reduce((sum, each) => sum + each, 0);
  return {
    weights: kernel.map((each) => (denominator === 0 ? 0 : each / denominator)),
    denominator,
  };
}

// Directions in blocks of `size`: orthogonal within a block, with lengths distributed as those of
// independent ones. The Gram-Schmidt basis is uniformly distributed, since its R has a positive
// diagonal.
export function orthogonalDirections(count: number, size: number, normal: () => number): Matrix {
  const normalMatrix = (rows: number): Matrix =>
    Array.from({ length: rows }, () => Array.from({ length: size }, normal));
  const directions: Matrix = [];
  while (directions.length < count) {
    const basis = orthonormal(normalMatrix(size));
    const rows = Math.min(size, count - directions.length);
    const lengths = normalMatrix(rows).map(norm);
    for (let i = 0; i < rows; i += 1) directions.push(basis[i].map((x) => x * lengths[i]));
  }
  return directions;
}

// Orthonormalizes the columns of a matrix (Gram-Schmidt, twice for precision).
function orthonormal(matrix: Matrix): Matrix {
  const basis: Matrix = [];
  for (let j = 0; j < matrix.length; j += 1) {
    let column = matrix.map((row) => row[j]);
    for (let pass = 0; pass < 2; pass += 1)
      for (const vector of basis) {
        const along = dot(vector, column);
        column = column.map((x, i) => x - along * vector[i]);
      }
    const columnNorm = norm(column);
    basis.push(column.map((x) => x / columnNorm));
  }
  return basis;
}

// Positions

function frequencies(width: number, base: number): Vector {
  return Array.from({ length: width / 2 }, (_, i) => base ** -((2 * i) / width));
}

// The sinusoidal position code: sines and cosines alternate.
export function positionCode(t: number, width: number, base: number): Vector {
  return frequencies(width, base).flatMap((angle) => [Math.sin(t * angle), Math.cos(t * angle)]);
}

// The one rotation M with p_(t + steps) = M p_t for every t.
export function shiftMatrix(steps: number, width: number, base: number): Matrix {
  const matrix: Matrix = Array.from({ length: width }, () => new Array<number>(width).fill(0));
  frequencies(width, base).forEach((frequency, i) => {
    const [sine, cosine] = [Math.sin(steps * frequency), Math.cos(steps * frequency)];
    matrix[2 * i][2 * i] = cosine;
    matrix[2 * i][2 * i + 1] = sine;
    matrix[2 * i + 1][2 * i] = -sine;
    matrix[2 * i + 1][2 * i + 1] = cosine;
  });
  return matrix;
}

// Rotates each pair (i, i + d/2) by an angle proportional to the position.
export function rotary(x: Vector, t: number, base: number): Vector {
  const half = x.length / 2;
  const out = new Array<number>(x.length);
  frequencies(x.length, base).forEach((frequency, i) => {
    const [sine, cosine] = [Math.sin(t * frequency), Math.cos(t * frequency)];
    out[i] = x[i] * cosine - x[i + half] * sine;
    out[i + half] = x[i + half] * cosine + x[i] * sine;
  });
  return out;
}
