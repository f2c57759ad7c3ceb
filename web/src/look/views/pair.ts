// One query and one key in one head: everything that is known of them, and the way to the weight.

import { asking } from '../asking';
import type { Opened } from '../capture';
import type { Choices } from '../choices';
import type { LayerInfo, Token } from '../format';
import { headName } from '../names';
import { chosenHeads } from '../prepare';
import { count, number, rounded } from '../../shared/text';
import { layerTitle } from './parts';
import { keyVector, lengthOf, roundingOf, scoresOf, valueVector, type Scores } from './scores';

export interface Pair {
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
  running: Float32Array | null; // its sum so far
  rounding: number; // how far recomputed and captured weight can be apart by it
}

export function pairOf(opened: Opened, choices: Choices): Pair {
  const side = opened.header.sides[choices.side];
  const layer = side.layers[choices.layer];
  const queries = asking(side, layer).tokens;
  const keys = side.sequences[layer.keys].tokens;
  const head = chosenHeads(layer, choices)[0];
  const query = choices.queries.find((each) => each < queries.length) ?? lastWord(queries);
  const scores = scoresOf(opened, choices.side, choices.layer, head, query);
  const key = choices.key !== null && choices.key < keys.length
    ? choices.key : strongest(scores.captured, keys, layer.kind === 'self' ? query : -1);
  const k = keyVector(opened, layer, head, key);
  const product = scores.q && k && scores.q.map((value, d) => value * k[d]);
  let sum = 0;
  return {
    layer, queries, keys, query, key, scores, k, product,
    title: `${layerTitle(side, choices.layer)}, head ${headName(layer, head)}`,
    v: valueVector(opened, layer, head, key),
    running: product && product.map((value) => (sum += value)),
    rounding: roundingOf(opened, layer, scores, key),
  };
}

// No sign of the tokenizer and no full stop.
const isWord = ({ special, text }: Token): boolean => !special && /[\p{L}\p{N}]/u.test(text);

// The last word: in a causal model it sees the most.
function lastWord(tokens: Token[]): number {
  for (let i = tokens.length - 1; i >= 0; i--) if (isWord(tokens[i])) return i;
  return tokens.length - 1;
}

// What the query looks at most; words but itself come first, because signs are often only a place
// to rest.
function strongest(weights: Float32Array, tokens: Token[], itself: number): number {
  const most = (keys: number[]): number => keys.reduce((best, key) => (
    Math.abs(weights[key]) > Math.abs(weights[best]) ? key : best), keys[0]);
  const all = [...tokens.keys()];
  const others = all.filter((key) => isWord(tokens[key]) && key !== itself && weights[key] !== 0);
  return most(others.length > 0 ? others : all);
}

export interface Step {
  name: string;
  value: string;
}

// From the two vectors to what the key gives, line by line.
export function stepsOf({ layer, key, scores, product, v, rounding }: Pair): Step[] {
  const steps: Step[] = [];
  const add = (name: string, value: string): void => { steps.push({ name, value }); };
  const { dots, bias, softmax, captured, allowed, bound } = scores;
  if (dots && scores.scores && product) {
    const { scale } = layer;
    add(`q · k, ${count(product.length, 'product')}`, number(dots[key], 5));
    if (scale !== null) add(`× scale ${number(scale, 5)}`, number(dots[key] * scale, 5));
    if (bias) add(`+ bias ${number(bias[key], 5)}`, number(scores.scores[key], 5));
  }
  add('mask', allowed[key] ? 'may look' : 'may not look');
  if (softmax) {
    const rivals = allowed.reduce((sum, may) => sum + may, 0);
    add(`softmax, ${count(rivals, 'key')}`, number(softmax[key], 6));
  }
  add('captured weight', rounded(captured[key], bound(key)));
  if (softmax) {
    const apart = softmax[key] - captured[key];
    const reason = Math.abs(apart) <= rounding ? 'only rounding' : 'not rounding';
    add('difference', `${number(apart, 6)}, ${reason}`);
  }
  if (v) {
    add('length of the value', number(lengthOf(v), 5));
    add('weight × length', number(captured[key] * lengthOf(v), 5));
  }
  return steps;
}

// What a person should know of how this weight came about.
export function remarksOf({ layer, scores, key, rounding, k, v }: Pair): string[] {
  const { softmax, captured, q } = scores;
  const said: string[] = [];
  if (layer.mechanism !== 'softmax') {
    said.push(`The mechanism is ${layer.mechanism}: its weight is not a softmax of the scores, so `
      + 'only the captured weight is shown.');
  } else if (softmax && Math.abs(softmax[key] - captured[key]) > rounding) {
    said.push('The softmax differs from the captured weight by more than the file rounds: the '
      + 'layer does something with its scores (a cap, a sink, dropout) that q, k, bias and mask '
      + 'do not show.');
  }
  const unread = [...(q === null ? ['queries'] : []), ...(k === null ? ['keys'] : [])];
  const reader = layer.mechanism === 'softmax' ? 'this layer' : layer.mechanism;
  if (unread.length > 0) said.push(`There are no ${unread.join(' and no ')}: ${reader} has none.`);
  if (v === null) said.push('The values of this layer were not captured.');
  return said;
}
