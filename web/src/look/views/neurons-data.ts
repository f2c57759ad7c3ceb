// Data of the neurons view: one query and one key in one head, and the calculation of the weight.

import { querySequence } from '../query-labels';
import type { Capture } from '../capture';
import type { Choices } from '../choices';
import type { LayerInfo, Token } from '../capture-format';
import { headName } from '../names';
import { selectedHeads } from '../prepare-weights';
import { count, number, sensible } from '../../shared/readable-text';
import { layerTitle } from './marks';
import { keyVector, vectorNorm, roundingBound, computeScores, valueVector,
  type Scores } from './attention-scores';

export interface QueryKeyPair {
  layer: LayerInfo;
  title: string; // layer and head
  queries: Token[];
  keys: Token[];
  query: number;
  key: number;
  scores: Scores;
  k: Float32Array | null;
  v: Float32Array | null;
  product: Float32Array | null; // element by element
  runningSum: Float32Array | null; // running sum of the product
  roundingBound: number; // largest difference between recomputed and captured weight due to rounding
}

export function readPair(capture: Capture, choices: Choices): QueryKeyPair {
  const side = capture.header.sides[choices.side];
  const layer = side.layers[choices.layer];
  const queries = querySequence(side, layer).tokens;
  const keys = side.sequences[layer.keys].tokens;
  const head = selectedHeads(layer, choices)[0];
  const query = choices.queries.find((each) => each < queries.length) ?? lastWordIndex(queries);
  const scores = computeScores(capture, choices.side, choices.layer, head, query);
  const key = choices.key !== null && choices.key < keys.length
    ? choices.key : strongestKey(scores.captured, keys, layer.kind === 'self' ? query : -1);
  const k = keyVector(capture, layer, head, key);
  const product = scores.q && k && scores.q.map((value, d) => value * k[d]);
  let sum = 0;
  return {
    layer, queries, keys, query, key, scores, k, product,
    title: `${layerTitle(side, choices.layer)}, head ${headName(layer, head)}`,
    v: valueVector(capture, layer, head, key),
    runningSum: product && product.map((value) => (sum += value)),
    roundingBound: roundingBound(capture, layer, scores, key),
  };
}

// Neither a special token nor punctuation.
export const isWord = ({ special, text }: Token): boolean => !special && /[\p{L}\p{N}]/u.test(text);

// The last word: in a causal model it attends to the most tokens.
export function lastWordIndex(tokens: Token[]): number {
  for (let i = tokens.length - 1; i >= 0; i--) if (isWord(tokens[i])) return i;
  return tokens.length - 1;
}

// The key with the largest weight. Prefers other words, because special tokens and punctuation are
// often only attention sinks.
export function strongestKey(weights: Float32Array, tokens: Token[], itself: number): number {
  const largestOf = (keys: number[]): number => keys.reduce((best, key) => (
    Math.abs(weights[key]) > Math.abs(weights[best]) ? key : best), keys[0]);
  const all = [...tokens.keys()];
  const otherWords = all.filter((key) => isWord(tokens[key]) && key !== itself
    && weights[key] !== 0);
  return largestOf(otherWords.length > 0 ? otherWords : all);
}

export interface CalculationStep {
  name: string;
  value: string;
}

// The calculation from the two vectors to the weighted value, line by line.
export function calculationSteps({ layer, key, scores, product, v,
  roundingBound }: QueryKeyPair): CalculationStep[] {
  const steps: CalculationStep[] = [];
  const addStep = (name: string, value: string): void => { steps.push({ name, value }); };
  const { dots, bias, softmax, captured, allowed, errorBound } = scores;
  if (dots && scores.scores && product) {
    const { scale } = layer;
    addStep(`q · k, ${count(product.length, 'product')}`, number(dots[key], 2));
    if (scale !== null) addStep(`× scale ${number(scale, 3)}`, number(dots[key] * scale, 3));
    if (bias) addStep(`+ bias ${number(bias[key], 3)}`, number(scores.scores[key], 3));
  }
  addStep('mask', allowed[key] ? 'allowed' : 'masked');
  if (softmax) {
    const allowedCount = allowed.reduce((sum, may) => sum + may, 0);
    addStep(`softmax, ${count(allowedCount, 'key')}`, sensible(softmax[key], 0));
  }
  addStep('captured weight', sensible(captured[key], errorBound(key)));
  if (softmax) {
    const difference = softmax[key] - captured[key];
    const reason = Math.abs(difference) <= roundingBound ? 'only rounding' : 'more than rounding';
    addStep('difference', `${number(difference, 6)}, ${reason}`);
  }
  if (v) {
    addStep('norm of the value', number(vectorNorm(v), 2));
    addStep('weight × norm', number(captured[key] * vectorNorm(v), 2));
  }
  return steps;
}

// Remarks about how this weight was computed.
export function makeRemarks({ layer, scores, key, roundingBound, k, v }: QueryKeyPair): string[] {
  const { softmax, captured, q } = scores;
  const remarks: string[] = [];
  if (layer.mechanism !== 'softmax') {
    remarks.push(`The mechanism is ${layer.mechanism}: its weight is not a softmax of the scores, so `
      + 'only the captured weight is displayed.');
  } else if (softmax && Math.abs(softmax[key] - captured[key]) > roundingBound) {
    remarks.push('The softmax differs from the captured weight by more than rounding explains: the '
      + 'layer does something with its scores (a cap, a sink, dropout) that q, k, bias and mask '
      + 'do not include.');
  }
  const unusedInputs = [...(q === null ? ['queries'] : []), ...(k === null ? ['keys'] : [])];
  const owner = layer.mechanism === 'softmax' ? 'This layer' : layer.mechanism;
  if (unusedInputs.length > 0) remarks.push(`${owner} has no ${unusedInputs.join(' and no ')}.`);
  if (v === null) remarks.push('The capture does not have the values of this layer.');
  return remarks;
}
