// What happens between one query and its keys in one head, recomputed from captured q, k and v.

import type { Opened } from '../capture';
import type { ArrayRef, LayerInfo } from '../format';
import { largest } from '../prepare';

export interface Scores {
  head: number; // index among the kept heads
  query: number;
  q: Float32Array | null; // (D)
  dots: Float64Array | null; // (S): q times each key
  scores: Float64Array | null; // (S): times the scale, plus the bias
  bias: Float32Array | null; // (S)
  allowed: Uint8Array; // (S): 1 where the query may look
  softmax: Float64Array | null; // (S): of the scores, where the mechanism is a softmax
  captured: Float32Array; // (S): what the layer's weights really were, rounded
  bound: (key: number) => number; // of the error that rounding made in them
}

// Which of the G key heads a kept head reads.
export function groupOf(layer: LayerInfo, head: number, groups: number): number {
  return layer.groups?.[head] ?? Math.floor((head * groups) / layer.heads.length);
}

// Row after row of one head in an array (heads, places, size).
function rowsOf(opened: Opened, ref: ArrayRef | null, head: number): Float32Array | null {
  if (ref === null || ref.shape[2] === 0) return null; // what is not read has width 0
  return opened.part(ref, head);
}

const rowAt = (rows: Float32Array, place: number, size: number): Float32Array => (
  rows.subarray(place * size, (place + 1) * size));

function readBy(
  opened: Opened, layer: LayerInfo, ref: ArrayRef | null, head: number,
): Float32Array | null {
  return ref && rowsOf(opened, ref, groupOf(layer, head, ref.shape[0]));
}

export function keyVector(
  opened: Opened, layer: LayerInfo, head: number, key: number,
): Float32Array | null {
  const rows = readBy(opened, layer, layer.k, head);
  return rows && layer.k && rowAt(rows, key, layer.k.shape[2]);
}

export function valueVector(
  opened: Opened, layer: LayerInfo, head: number, key: number,
): Float32Array | null {
  const rows = readBy(opened, layer, layer.v, head);
  return rows && layer.v && rowAt(rows, key, layer.v.shape[2]);
}

export function scoresOf(
  opened: Opened, side: number, index: number, head: number, query: number,
): Scores {
  const layer = opened.header.sides[side].layers[index];
  const weights = opened.weights(side, index);
  const { keys } = weights;
  const queries = rowsOf(opened, layer.q, head);
  const q = queries && layer.q && rowAt(queries, query, layer.q.shape[2]);
  const k = readBy(opened, layer, layer.k, head);
  const allowed = allowedRow(opened, side, layer, query, keys);
  const bias = biasRow(opened, layer, head, query, keys);
  const dots = q && k && dotProducts(q, k, keys);
  const scores = dots && dots.map((dot, key) => dot * (layer.scale ?? 1) + (bias ? bias[key] : 0));
  const softmax = scores && layer.mechanism === 'softmax' ? softmaxOf(scores, allowed) : null;
  const bound = (key: number): number => weights.bound(head, query, key);
  const captured = weights.row(head, query);
  return { head, query, q, dots, scores, bias, allowed, softmax, captured, bound };
}

function dotProducts(q: Float32Array, k: Float32Array, keys: number): Float64Array {
  const dots = new Float64Array(keys);
  for (let key = 0; key < keys; key++) {
    const from = key * q.length;
    let dot = 0;
    for (let d = 0; d < q.length; d++) dot += q[d] * k[from + d];
    dots[key] = dot;
  }
  return dots;
}

// Over what may be looked at; a query that may look at nothing has zeros.
export function softmaxOf(scores: Float64Array, allowed: Uint8Array): Float64Array {
  let most = -Infinity;
  scores.forEach((score, key) => { if (allowed[key]) most = Math.max(most, score); });
  const powers = scores.map((score, key) => (allowed[key] ? Math.exp(score - most) : 0));
  const total = powers.reduce((sum, power) => sum + power, 0);
  return total > 0 ? powers.map((power) => power / total) : powers;
}

function allowedRow(
  opened: Opened, side: number, layer: LayerInfo, query: number, keys: number,
): Uint8Array {
  if (layer.mask === null) return new Uint8Array(keys).fill(1);
  const values = opened.values(opened.header.sides[side].masks[layer.mask].allowed);
  return Uint8Array.from({ length: keys }, (_, key) => (values[query * keys + key] > 0 ? 1 : 0));
}

function biasRow(
  opened: Opened, layer: LayerInfo, head: number, query: number, keys: number,
): Float32Array | null {
  if (layer.bias === null) return null;
  const rows = rowsOf(opened, layer.bias, layer.bias.shape[0] === 1 ? 0 : head);
  return rows && rowAt(rows, query, keys);
}

// How far the recomputed weight of a key can be from the captured one by the file's rounding alone:
// of the weight itself, and of every score through the elements of q, k and bias.
export function roundingOf(opened: Opened, layer: LayerInfo, scores: Scores, key: number): number {
  const k = readBy(opened, layer, layer.k, scores.head);
  const { q, softmax, allowed, bias } = scores;
  if (!softmax || !q || !k || !layer.q || !layer.k) return scores.bound(key);
  const ofQ = layer.q.error * largest(q);
  const ofBias = bias && layer.bias ? layer.bias.error * largest(bias) : 0;
  let ofDots = 0;
  for (let other = 0; other < allowed.length; other++) {
    if (!allowed[other]) continue;
    const row = rowAt(k, other, q.length);
    ofDots = Math.max(ofDots, sizeOf(row) * ofQ + sizeOf(q) * layer.k.error * largest(row));
  }
  const ofScores = Math.abs(layer.scale ?? 1) * ofDots + ofBias;
  const ofFloats = 1e-6;
  return scores.bound(key) + softmax[key] * Math.expm1(2 * ofScores) + ofFloats;
}

function sizeOf(values: Float32Array): number {
  let sum = 0;
  for (let i = 0; i < values.length; i++) sum += Math.abs(values[i]);
  return sum;
}

export function lengthOf(values: Float32Array): number {
  return Math.sqrt(values.reduce((sum, value) => sum + value * value, 0));
}
