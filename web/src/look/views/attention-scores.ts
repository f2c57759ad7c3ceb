// Scores and softmax of one query over its keys in one head, recomputed from captured q, k and v.

import type { Capture } from '../capture';
import type { ArrayRef, LayerInfo } from '../capture-format';
import { maxAbs } from '../prepare-weights';

export interface Scores {
  head: number; // index among the captured heads
  query: number;
  q: Float32Array | null; // (D)
  dots: Float64Array | null; // (S): dot product of q with each key
  scores: Float64Array | null; // (S): dot products times the scale, plus the bias
  bias: Float32Array | null; // (S)
  allowed: Uint8Array; // (S): 1 if the query may attend to the key
  softmax: Float64Array | null; // (S): softmax of the scores, if the mechanism is softmax
  captured: Float32Array; // (S): captured weights, rounded
  errorBound: (key: number) => number; // upper bound of their rounding error
}

// Index of the key head (of G) that a captured head uses.
export function keyHeadIndex(layer: LayerInfo, head: number, groups: number): number {
  return layer.groups?.[head] ?? Math.floor((head * groups) / layer.heads.length);
}

// All rows of one head in an array (heads, positions, size).
export function headRows(capture: Capture, ref: ArrayRef | null, head: number): Float32Array | null {
  if (ref === null || ref.shape[2] === 0) return null; // unused inputs have width 0
  return capture.slice(ref, head);
}

export const rowOf = (rows: Float32Array, index: number, size: number): Float32Array => (
  rows.subarray(index * size, (index + 1) * size));

export function groupRows(
  capture: Capture, layer: LayerInfo, ref: ArrayRef | null, head: number,
): Float32Array | null {
  return ref && headRows(capture, ref, keyHeadIndex(layer, head, ref.shape[0]));
}

export function keyVector(
  capture: Capture, layer: LayerInfo, head: number, key: number,
): Float32Array | null {
  const rows = groupRows(capture, layer, layer.k, head);
  return rows && layer.k && rowOf(rows, key, layer.k.shape[2]);
}

export function valueVector(
  capture: Capture, layer: LayerInfo, head: number, key: number,
): Float32Array | null {
  const rows = groupRows(capture, layer, layer.v, head);
  return rows && layer.v && rowOf(rows, key, layer.v.shape[2]);
}

export function computeScores(
  capture: Capture, side: number, index: number, head: number, query: number,
): Scores {
  const layer = capture.header.sides[side].layers[index];
  const weights = capture.weights(side, index);
  const { keys } = weights;
  const queries = headRows(capture, layer.q, head);
  const q = queries && layer.q && rowOf(queries, query, layer.q.shape[2]);
  const k = groupRows(capture, layer, layer.k, head);
  const allowed = allowedRow(capture, side, layer, query, keys);
  const bias = biasRow(capture, layer, head, query, keys);
  const dots = q && k && dotProducts(q, k, keys);
  const scores = dots && dots.map((dot, key) => dot * (layer.scale ?? 1) + (bias ? bias[key] : 0));
  const softmax = scores && layer.mechanism === 'softmax' ? maskedSoftmax(scores, allowed) : null;
  const errorBound = (key: number): number => weights.errorBound(head, query, key);
  const captured = weights.row(head, query);
  return { head, query, q, dots, scores, bias, allowed, softmax, captured, errorBound };
}

export function dotProducts(q: Float32Array, k: Float32Array, keys: number): Float64Array {
  const dots = new Float64Array(keys);
  for (let key = 0; key < keys; key++) {
    const offset = key * q.length;
    let dot = 0;
    for (let d = 0; d < q.length; d++) dot += q[d] * k[offset + d];
    dots[key] = dot;
  }
  return dots;
}

// Softmax over the allowed keys; all zeros if no key is allowed.
export function maskedSoftmax(scores: Float64Array, allowed: Uint8Array): Float64Array {
  let largest = -Infinity;
  scores.forEach((score, key) => { if (allowed[key]) largest = Math.max(largest, score); });
  const exponentials = scores.map((score, key) => (allowed[key] ? Math.exp(score - largest) : 0));
  const total = exponentials.reduce((sum, power) => sum + power, 0);
  return total > 0 ? exponentials.map((power) => power / total) : exponentials;
}

export function allowedRow(
  capture: Capture, side: number, layer: LayerInfo, query: number, keys: number,
): Uint8Array {
  if (layer.mask === null) return new Uint8Array(keys).fill(1);
  const values = capture.values(capture.header.sides[side].masks[layer.mask].allowed);
  return Uint8Array.from({ length: keys }, (_, key) => (values[query * keys + key] > 0 ? 1 : 0));
}

export function biasRow(
  capture: Capture, layer: LayerInfo, head: number, query: number, keys: number,
): Float32Array | null {
  if (layer.bias === null) return null;
  const rows = headRows(capture, layer.bias, layer.bias.shape[0] === 1 ? 0 : head);
  return rows && rowOf(rows, query, keys);
}

// Largest difference between the recomputed and the captured weight of a key that rounding in the
// file explains: rounding of the weight itself, and of the elements of q, k and bias.
export function roundingBound(capture: Capture, layer: LayerInfo, scores: Scores,
  key: number): number {
  const k = groupRows(capture, layer, layer.k, scores.head);
  const { q, softmax, allowed, bias } = scores;
  if (!softmax || !q || !k || !layer.q || !layer.k) return scores.errorBound(key);
  const errorOfQ = layer.q.error * maxAbs(q);
  const errorOfBias = bias && layer.bias ? layer.bias.error * maxAbs(bias) : 0;
  let errorOfDots = 0;
  for (let other = 0; other < allowed.length; other++) {
    if (!allowed[other]) continue;
    const row = rowOf(k, other, q.length);
    errorOfDots = Math.max(errorOfDots,
      sumOfAbs(row) * errorOfQ + sumOfAbs(q) * layer.k.error * maxAbs(row));
  }
  const errorOfScores = Math.abs(layer.scale ?? 1) * errorOfDots + errorOfBias;
  const floatError = 1e-6;
  return scores.errorBound(key) + softmax[key] * Math.expm1(2 * errorOfScores) + floatError;
}

function sumOfAbs(values: Float32Array): number {
  let sum = 0;
  for (let i = 0; i < values.length; i++) sum += Math.abs(values[i]);
  return sum;
}

export function vectorNorm(values: Float32Array): number {
  return Math.sqrt(values.reduce((sum, value) => sum + value * value, 0));
}
