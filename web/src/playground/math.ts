// The mathematics of the playground: pure functions, tested against attnlab itself on random
// instances (instances.json, which web/instances.py makes).
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

export function apply(matrix: Matrix, x: Vector): Vector {
  return matrix.map((row) => dot(row, x));
}

export function length(x: Vector): number {
  return Math.sqrt(dot(x, x));
}

// Weighted sum of rows.
export function mix(weights: Vector, rows: Matrix): Vector {
  const out = new Array<number>(rows[0]?.length ?? 0).fill(0);
  rows.forEach((row, i) => row.forEach((x, j) => (out[j] += weights[i] * x)));
  return out;
}

// Where nothing is allowed all weights are 0.
export function softmax(scores: Vector, allowed?: boolean[]): Vector {
  const masked = scores.map((score, i) => (allowed && !allowed[i] ? -Infinity : score));
  const top = Math.max(...masked);
  if (top === -Infinity) return masked.map(() => 0);
  const powers = masked.map((score) => Math.exp(score - top));
  const sum = powers.reduce((total, each) => total + each, 0);
  return powers.map((each) => each / sum);
}

export interface Attended {
  weights: Vector;
  output: Vector;
}

export type MaskHow = 'before' | 'after'; // the softmax

// A mask after the softmax only takes weight away: what is left does not sum to 1.
export function attend(
  q: Vector,
  keys: Matrix,
  values: Matrix,
  beta: number,
  allowed?: boolean[],
  how: MaskHow = 'before',
): Attended {
  const scores = keys.map((key) => beta * dot(key, q));
  const weights =
    how === 'before'
      ? softmax(scores, allowed)
      : softmax(scores).map((each, i) => (allowed && !allowed[i] ? 0 : each));
  return { weights, output: mix(weights, values) };
}

// In nats; what has no weight adds nothing.
export function entropy(weights: Vector): number {
  return weights.reduce((sum, a) => (a > 0 ? sum - a * Math.log(a) : sum), 0);
}

// k_i ~ N(mu_i, isotropic I + radial_i mu_i mu_i^T), from d + 1 normal draws for each key.
export function noisyKeys(
  keys: Matrix,
  isotropic: number,
  radial: Vector,
  normals: Matrix,
): Matrix {
  return keys.map((key, i) => {
    const longer = 1 + Math.sqrt(radial[i]) * normals[i][key.length];
    return key.map((x, j) => x * longer + Math.sqrt(isotropic) * normals[i][j]);
  });
}

export interface Spread {
  mean: Vector;
  variance: number; // summed over the numbers of a vector
}

export function spread(samples: Matrix): Spread {
  const mean = mix(new Array<number>(samples.length).fill(1 / samples.length), samples);
  let sum = 0;
  for (const sample of samples) sample.forEach((x, j) => (sum += (x - mean[j]) ** 2));
  return { mean, variance: samples.length > 1 ? sum / (samples.length - 1) : 0 };
}

// Random features: phi(x).phi(y) is exp(x.y) on average.

export type Kind = 'positive' | 'trigonometric';

export function features(kind: Kind, x: Vector, draws: Matrix): Vector {
  const half = dot(x, x) / 2;
  const size = Math.sqrt(draws.length);
  const along = draws.map((w) => dot(w, x));
  if (kind === 'positive') return along.map((each) => Math.exp(each - half) / size);
  const factor = Math.exp(half) / size;
  return [...along.map((x_) => factor * Math.cos(x_)), ...along.map((x_) => factor * Math.sin(x_))];
}

export interface Approximated {
  weights: Vector;
  denominator: number;
}

// Attention by features of the inputs, scaled so that exp(b q.k) is the kernel.
export function featureWeights(
  kind: Kind,
  q: Vector,
  keys: Matrix,
  draws: Matrix,
  beta: number,
): Approximated {
  const scaled = (x: Vector): Vector => x.map((each) => each * Math.sqrt(beta));
  const asked = features(kind, scaled(q), draws);
  const kernel = keys.map((key) => dot(asked, features(kind, scaled(key), draws)));
  const denominator = kernel.reduce((sum, each) => sum + each, 0);
  return {
    weights: kernel.map((each) => (denominator === 0 ? 0 : each / denominator)),
    denominator,
  };
}

// Rows of one block are orthogonal to each other, and as long as independent ones are. Gram and
// Schmidt's basis is uniformly distributed, since its R has a positive diagonal.
export function orthogonalDraws(count: number, size: number, normal: () => number): Matrix {
  const fresh = (rows: number): Matrix =>
    Array.from({ length: rows }, () => Array.from({ length: size }, normal));
  const draws: Matrix = [];
  while (draws.length < count) {
    const basis = orthonormal(fresh(size));
    const rows = Math.min(size, count - draws.length);
    const lengths = fresh(rows).map(length);
    for (let i = 0; i < rows; i += 1) draws.push(basis[i].map((x) => x * lengths[i]));
  }
  return draws;
}

// The columns of a matrix made orthonormal, in turn.
function orthonormal(matrix: Matrix): Matrix {
  const basis: Matrix = [];
  for (let j = 0; j < matrix.length; j += 1) {
    let column = matrix.map((row) => row[j]);
    for (let again = 0; again < 2; again += 1)
      for (const each of basis) {
        const along = dot(each, column);
        column = column.map((x, i) => x - along * each[i]);
      }
    const size = length(column);
    basis.push(column.map((x) => x / size));
  }
  return basis;
}

// Positions

function frequencies(width: number, base: number): Vector {
  return Array.from({ length: width / 2 }, (_, i) => base ** -((2 * i) / width));
}

// Sines and cosines in turn.
export function positionCode(t: number, width: number, base: number): Vector {
  return frequencies(width, base).flatMap((each) => [Math.sin(t * each), Math.cos(t * each)]);
}

// The one rotation M with p_(t + steps) = M p_t for every t.
export function shiftMatrix(steps: number, width: number, base: number): Matrix {
  const matrix: Matrix = Array.from({ length: width }, () => new Array<number>(width).fill(0));
  frequencies(width, base).forEach((each, i) => {
    const [sine, cosine] = [Math.sin(steps * each), Math.cos(steps * each)];
    matrix[2 * i][2 * i] = cosine;
    matrix[2 * i][2 * i + 1] = sine;
    matrix[2 * i + 1][2 * i] = -sine;
    matrix[2 * i + 1][2 * i + 1] = cosine;
  });
  return matrix;
}

// Each pair (i, i + d/2) turned by an angle that grows with the position.
export function rotary(x: Vector, t: number, base: number): Vector {
  const half = x.length / 2;
  const out = new Array<number>(x.length);
  frequencies(x.length, base).forEach((each, i) => {
    const [sine, cosine] = [Math.sin(t * each), Math.cos(t * each)];
    out[i] = x[i] * cosine - x[i + half] * sine;
    out[i + half] = x[i + half] * cosine + x[i] * sine;
  });
  return out;
}
