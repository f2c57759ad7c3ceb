// Attention in the plane: the settings, and the computed result. The names of the settings are
// also the parameters of the address.

import { multiply, attention, entropy, weightedSum, noisyKeys, meanAndVariance } from './math';
import type { AttentionResult, MaskMode, Matrix, MeanAndVariance, Vector } from './math';
import { normalGenerator } from './random';

export interface Plane {
  keys: Matrix; // in self-attention these are the tokens
  values: Matrix;
  queries: Matrix; // one for each head
  identical: boolean; // all heads use the first query
  beta: number;
  isotropic: number; // variance of the noise of every key
  radial: number; // variance of the length of the noisy keys
  noisy: boolean[];
  samples: number;
  seed: number;
  allowed: boolean[];
  how: MaskMode;
  self: boolean; // self-attention: matrices make queries and values from the tokens
  causal: boolean;
  query: Vector; // the matrix Q, row by row
  value: Vector; // the matrix V
  asking: number; // the token whose query, weights and output are shown
}

export const MAX_KEYS = 6;
export const MAX_HEADS = 4;
export const MAX_SAMPLES = 500;

export interface PlaneResult {
  queries: Matrix;
  values: Matrix;
  rows: AttentionResult[]; // of each head, or of each token
  output: Vector; // mean output of the heads, or output of the token `asking`
  entropies: number[];
  noisyKeySamples: Matrix[]; // of each key, over samples
  noisyOutputs: Matrix; // over samples
  spread: MeanAndVariance | null;
}

function toMatrix([a, b, c, d]: Vector): Matrix {
  return [
    [a, b],
    [c, d],
  ];
}

export function evaluatePlane(plane: Plane): PlaneResult {
  const queries = plane.self
    ? plane.keys.map((token) => multiply(toMatrix(plane.query), token))
    : plane.queries.map((q) => (plane.identical ? plane.queries[0] : q));
  const values = plane.self
    ? plane.keys.map((token) => multiply(toMatrix(plane.value), token))
    : plane.values;
  const attendRows = (keys: Matrix, rowIndices: number[]): AttentionResult[] =>
    rowIndices.map((row) =>
      attention(queries[row], keys, values, plane.beta, allowedKeys(plane, row), plane.how),
    );
  const all = queries.map((_, i) => i);
  const outputRows = plane.self ? [plane.asking] : all; // rows whose mean is the output
  const meanOutput = (rows: AttentionResult[]): Vector =>
    weightedSum(
      rows.map(() => 1 / rows.length),
      rows.map((row) => row.output),
    );
  const rows = attendRows(plane.keys, all);
  const samples = sampleNoisyKeys(plane);
  const noisyOutputs = samples.map((keys) => meanOutput(attendRows(keys, outputRows)));
  return {
    queries,
    values,
    rows,
    output: meanOutput(outputRows.map((row) => rows[row])),
    entropies: rows.map(({ weights }) => entropy(weights)),
    noisyKeySamples: plane.keys.map((_, i) => samples.map((keys) => keys[i])),
    noisyOutputs,
    spread: noisyOutputs.length > 1 ? meanAndVariance(noisyOutputs) : null,
  };
}

// Which keys a query may attend to.
export function allowedKeys(plane: Plane, row: number): boolean[] {
  return plane.allowed.map((each, i) => each && !(plane.self && plane.causal && i > row));
}

function sampleNoisyKeys(plane: Plane): Matrix[] {
  if (plane.isotropic === 0 && (plane.radial === 0 || !plane.noisy.includes(true))) return [];
  const normal = normalGenerator(plane.seed);
  const radial = plane.noisy.map((each) => (each ? plane.radial : 0));
  return Array.from({ length: plane.samples }, () => {
    // always enough numbers for all possible keys, so that adding a key does not change the others
    const normals = Array.from({ length: MAX_KEYS }, () => [normal(), normal(), normal()]);
    return noisyKeys(plane.keys, plane.isotropic, radial, normals);
  });
}

export function withKeyCount(plane: Plane, keys: number): Plane {
  const count = Math.max(1, Math.min(MAX_KEYS, keys));
  const resize = <T>(list: T[], make: (i: number) => T): T[] =>
    Array.from({ length: count }, (_, i) => list[i] ?? make(i));
  const newPoint = (i: number): Vector => {
    const angle = 2.4 * i; // nearly the golden angle, so that a new key lies apart
    return [roundCoordinate(1.2 * Math.cos(angle)), roundCoordinate(1.2 * Math.sin(angle))];
  };
  return {
    ...plane,
    keys: resize(plane.keys, newPoint),
    values: resize(plane.values, newPoint),
    noisy: resize(plane.noisy, () => false),
    allowed: resize(plane.allowed, () => true),
    asking: Math.min(plane.asking, count - 1),
  };
}

export function withHeadCount(plane: Plane, heads: number): Plane {
  const count = Math.max(1, Math.min(MAX_HEADS, heads));
  const key = (i: number): Vector => [...plane.keys[i % plane.keys.length]];
  const queries = Array.from({ length: count }, (_, i) => plane.queries[i] ?? key(i));
  return { ...plane, queries };
}

export function roundCoordinate(value: number): number {
  return Math.round(value * 1000) / 1000 + 0;
}
