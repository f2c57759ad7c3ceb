// Attention in the plane: what can be set, and what comes out.

import { apply, attend, entropy, mix, noisyKeys, spread } from './math';
import type { Attended, MaskHow, Matrix, Spread, Vector } from './math';
import { normals } from './random';

export interface Plane {
  keys: Matrix; // in self-attention: the tokens
  values: Matrix;
  queries: Matrix; // one for each head
  identical: boolean; // all heads ask with the first query
  beta: number;
  isotropic: number; // variance of the noise of every key
  radial: number; // variance of the length of the keys that are noisy
  noisy: boolean[];
  samples: number;
  seed: number;
  allowed: boolean[];
  how: MaskHow;
  self: boolean; // queries, keys and values are made from tokens, by matrices
  causal: boolean;
  query: Vector; // the matrix Q, row by row
  value: Vector; // the matrix V
  asking: number; // the token whose output is sampled
}

export const MOST_KEYS = 6;
export const MOST_HEADS = 4;
export const MOST_SAMPLES = 500;

export interface Found {
  queries: Matrix;
  values: Matrix;
  rows: Attended[]; // of each head, or of each token
  output: Vector; // the mean of the heads, or that of the token that is asked
  entropies: number[];
  clouds: Matrix[]; // of each key, over samples
  outputs: Matrix; // over samples
  spread: Spread | null;
}

function matrix([a, b, c, d]: Vector): Matrix {
  return [
    [a, b],
    [c, d],
  ];
}

export function evaluate(plane: Plane): Found {
  const asked = plane.self
    ? plane.keys.map((token) => apply(matrix(plane.query), token))
    : plane.queries.map((q) => (plane.identical ? plane.queries[0] : q));
  const values = plane.self
    ? plane.keys.map((token) => apply(matrix(plane.value), token))
    : plane.values;
  const read = (keys: Matrix, which: number[]): Attended[] =>
    which.map((row) => attend(asked[row], keys, values, plane.beta, seen(plane, row), plane.how));
  const all = asked.map((_, i) => i);
  const told = plane.self ? [plane.asking] : all; // whose mean is the output
  const together = (rows: Attended[]): Vector =>
    mix(
      rows.map(() => 1 / rows.length),
      rows.map((row) => row.output),
    );
  const rows = read(plane.keys, all);
  const samples = draw(plane);
  const outputs = samples.map((keys) => together(read(keys, told)));
  return {
    queries: asked,
    values,
    rows,
    output: together(told.map((row) => rows[row])),
    entropies: rows.map(({ weights }) => entropy(weights)),
    clouds: plane.keys.map((_, i) => samples.map((keys) => keys[i])),
    outputs,
    spread: outputs.length > 1 ? spread(outputs) : null,
  };
}

// Which keys a row may look at.
export function seen(plane: Plane, row: number): boolean[] {
  return plane.allowed.map((each, i) => each && !(plane.self && plane.causal && i > row));
}

function draw(plane: Plane): Matrix[] {
  if (plane.isotropic === 0 && (plane.radial === 0 || !plane.noisy.includes(true))) return [];
  const normal = normals(plane.seed);
  const radial = plane.noisy.map((each) => (each ? plane.radial : 0));
  return Array.from({ length: plane.samples }, () => {
    // as many draws for each sample as there could be keys: a key more changes no other
    const drawn = Array.from({ length: MOST_KEYS }, () => [normal(), normal(), normal()]);
    return noisyKeys(plane.keys, plane.isotropic, radial, drawn);
  });
}

export function resized(plane: Plane, keys: number): Plane {
  const kept = Math.max(1, Math.min(MOST_KEYS, keys));
  const fill = <T>(list: T[], make: (i: number) => T): T[] =>
    Array.from({ length: kept }, (_, i) => list[i] ?? make(i));
  const around = (i: number): Vector => {
    const angle = 2.4 * i; // the golden angle, nearly: a new one lies apart
    return [rounded(1.2 * Math.cos(angle)), rounded(1.2 * Math.sin(angle))];
  };
  return {
    ...plane,
    keys: fill(plane.keys, around),
    values: fill(plane.values, around),
    noisy: fill(plane.noisy, () => false),
    allowed: fill(plane.allowed, () => true),
    asking: Math.min(plane.asking, kept - 1),
  };
}

export function withHeads(plane: Plane, heads: number): Plane {
  const kept = Math.max(1, Math.min(MOST_HEADS, heads));
  const key = (i: number): Vector => [...plane.keys[i % plane.keys.length]];
  const queries = Array.from({ length: kept }, (_, i) => plane.queries[i] ?? key(i));
  return { ...plane, queries };
}

export function rounded(value: number): number {
  return Math.round(value * 1000) / 1000 + 0;
}
