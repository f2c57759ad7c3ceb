// The numbers that every view uses. In this order: value norms, the mean of heads, sinks, words,
// threshold and top; the scale comes last and is for eyes only.

import { asking } from './asking';
import type { Opened, Weights } from './capture';
import type { Choices } from './choices';
import type { LayerInfo, Sequence } from './format';
import { Recent } from './recent';
import { finisher, type Item, type Read } from './rows';

export { filter, merge, withoutSinks, type Item } from './rows';

const KEPT = 128 * 2 ** 20; // bytes of prepared matrices
const DECADES = 4; // that the logarithmic scale shows

export interface Seen {
  layer: LayerInfo;
  weights: Weights;
  signed: boolean;
  heads: number[]; // that were chosen
  queries: Item[];
  keys: Item[];
  hidden: boolean[]; // keys that are hidden as sinks, wholly
  changed: string[]; // how the numbers differ from the weights, in words
  matrix: (head: number) => Float32Array; // (queries, keys) of one head
  mean: () => Float32Array; // of the chosen heads
  // The same of one row and one cell, without the whole matrix where that is not needed.
  row: (heads: number[], query: number) => Float32Array;
  sum: (heads: number[], queries: number[]) => Float32Array; // of these rows
  cell: (heads: number[], query: number, key: number) => number;
  plain: boolean; // the numbers are the weights themselves
  bound: (heads: number[], query: number, key: number) => number; // of rounding; NaN: unknown
}

export function items(sequence: Sequence, words: boolean): Item[] {
  const known = words ? joined : single;
  let all = known.get(sequence);
  if (!all) known.set(sequence, (all = itemsOf(sequence, words)));
  return all;
}

const [single, joined] = [new WeakMap<Sequence, Item[]>(), new WeakMap<Sequence, Item[]>()];

function itemsOf(sequence: Sequence, words: boolean): Item[] {
  const all: Item[] = [];
  sequence.tokens.forEach((token, i) => {
    const last = all[all.length - 1];
    const before = sequence.tokens[i - 1];
    const follows =
      words &&
      before !== undefined &&
      !token.special &&
      !before.special &&
      token.word >= 0 &&
      token.word === before.word;
    if (!follows) all.push({ text: token.text, tokens: [i], special: token.special });
    else {
      last.tokens.push(i);
      last.text +=
        token.text.length > 2 && token.text.startsWith('##') ? token.text.slice(2) : token.text;
    }
  });
  return all;
}

// Places of the items that hold one of these tokens.
export function places(all: Item[], tokens: number[]): number[] {
  const wanted = new Set(tokens);
  return all.flatMap((item, i) => (item.tokens.some((each) => wanted.has(each)) ? [i] : []));
}

export function chosenHeads(layer: LayerInfo, choices: Choices): number[] {
  const chosen = choices.heads.filter((each) => each < layer.heads.length);
  return chosen.length ? chosen : layer.heads.map((_, i) => i);
}

export function prepare(
  opened: Opened,
  choices: Choices,
  side = choices.side,
  index = choices.layer,
): Seen {
  const one = opened.header.sides[side];
  const layer = one.layers[index];
  const weights = opened.weights(side, index);
  const [asked, answered] = [asking(one, layer), one.sequences[layer.keys]];
  const queries = items(asked, choices.words);
  const keys = items(answered, choices.words);
  const sinks = sinksOf(answered, choices);
  const norms = choices.weighting === 'norms' && layer.norms ? opened.values(layer.norms) : null;
  const heads = chosenHeads(layer, choices);
  const key = [
    side,
    index,
    choices.words,
    choices.first,
    choices.separators,
    norms !== null,
    choices.threshold,
    choices.top,
  ].join(' ');
  const finish = finisher(
    { sinks, queries, keys, words: choices.words, threshold: choices.threshold, top: choices.top },
    weights.keys,
  );
  const changed = changes(choices, norms !== null);
  const plain = changed.length === 0;
  const matrix = (of: number[]): Float32Array => {
    if (plain) return of.length === 1 ? weights.head(of[0]) : weights.mean(of);
    return keep(opened, `${key} ${of.join(' ')}`, () => {
      const read = readerOf(weights, norms, of);
      const out = new Float32Array(queries.length * keys.length);
      for (let q = 0; q < queries.length; q += 1)
        finish(read, q, out.subarray(q * keys.length, (q + 1) * keys.length));
      return out;
    });
  };
  return {
    layer,
    weights,
    signed: layer.signed,
    heads,
    queries,
    keys,
    hidden: keys.map((item) => item.tokens.every((each) => sinks[each] > 0)),
    changed,
    plain,
    matrix: (head) => matrix([head]),
    mean: () => matrix(heads),
    row(of, query) {
      const out = new Float32Array(keys.length);
      finish(rowReader(weights, norms, of), query, out);
      return out;
    },
    sum(of, asking) {
      const [read, one] = [rowReader(weights, norms, of), new Float32Array(keys.length)];
      const out = new Float32Array(keys.length);
      for (const query of asking) {
        finish(read, query, one);
        for (let k = 0; k < out.length; k += 1) out[k] += one[k];
      }
      return out;
    },
    cell: (of, query, place) =>
      plain
        ? of.reduce((sum, head) => sum + weights.at(head, query, place), 0) / of.length
        : matrix(of)[query * keys.length + place],
    bound: (of, query, place) => boundOf(weights, norms, of, queries[query], keys[place], sinks),
  };
}

const kept = new WeakMap<Opened, Recent<Float32Array>>();

function keep(opened: Opened, key: string, make: () => Float32Array): Float32Array {
  let recent = kept.get(opened);
  if (!recent) kept.set(opened, (recent = new Recent(KEPT)));
  const known = recent.get(key);
  if (known) return known;
  const fresh = make();
  recent.set(key, fresh, fresh.byteLength);
  return fresh;
}

function changes(choices: Choices, norms: boolean): string[] {
  const said: string[] = [];
  const sink = { show: '', hide: 'hidden', renormalize: 'taken out, the rest scaled up' };
  if (norms) said.push('times the length of the value');
  if (choices.first !== 'show') said.push(`first token ${sink[choices.first]}`);
  if (choices.separators !== 'show') said.push(`separators ${sink[choices.separators]}`);
  if (choices.words) said.push('sub-words merged: sum over keys, mean over queries');
  if (choices.threshold > 0) said.push(`below ${choices.threshold} hidden`);
  if (choices.top > 0) said.push(`${choices.top} largest of each query`);
  return said;
}

// For each key token 0: shown, 1: hidden, 2: hidden and the rest of the row scaled up.
export function sinksOf(
  sequence: Sequence,
  choices: Pick<Choices, 'first' | 'separators'>,
): Uint8Array {
  const mode = { show: 0, hide: 1, renormalize: 2 };
  return Uint8Array.from(sequence.tokens, (token, i) => {
    if (i === 0) return mode[choices.first];
    return token.special ? mode[choices.separators] : 0;
  });
}

// Rows of one head, or of the mean of several; each times the length of its value, where asked for.
function rowReader(weights: Weights, norms: Float32Array | null, heads: number[]): Read {
  const add = weights.adder();
  const share = 1 / heads.length;
  if (!norms) {
    return (query, out) => {
      out.fill(0);
      for (const head of heads) add(head, query, share, out);
    };
  }
  const one = new Float32Array(weights.keys);
  return (query, out) => {
    out.fill(0);
    for (const head of heads) {
      add(head, query, share, one.fill(0));
      const first = head * weights.keys;
      for (let k = 0; k < one.length; k += 1) out[k] += one[k] * norms[first + k];
    }
  };
}

// The same where all rows are read: a mean is kept, because it takes all weights of a layer.
function readerOf(weights: Weights, norms: Float32Array | null, heads: number[]): Read {
  if (norms || heads.length === 1) return rowReader(weights, norms, heads);
  const mean = weights.mean(heads);
  return (query, out) => out.set(mean.subarray(query * weights.keys, (query + 1) * weights.keys));
}

function boundOf(
  weights: Weights,
  norms: Float32Array | null,
  heads: number[],
  query: Item,
  key: Item,
  sinks: Uint8Array,
): number {
  if (sinks.includes(2)) return NaN; // a rounded divisor: no simple bound
  let total = 0;
  for (const head of heads) {
    for (const t of query.tokens) {
      for (const s of key.tokens) {
        if (sinks[s] === 0)
          total += weights.bound(head, t, s) * (norms ? norms[head * weights.keys + s] : 1);
      }
    }
  }
  return total / (query.tokens.length * heads.length);
}

// The sum over rows: what several queries together look at.
export function sumRows(values: Float32Array, columns: number, rows: number[]): Float32Array {
  const out = new Float32Array(columns);
  for (const row of rows) {
    for (let k = 0; k < columns; k += 1) out[k] += values[row * columns + k];
  }
  return out;
}

export function largest(values: Float32Array): number {
  let most = 0;
  for (let i = 0; i < values.length; i += 1) {
    const size = values[i] < 0 ? -values[i] : values[i];
    if (size > most) most = size; // what is not a number never is
  }
  return most;
}

// How strongly a share of the largest weight is shown, both 0 to 1.
export function shade(share: number, scale: Choices['scale']): number {
  if (!(share > 0)) return 0;
  if (share >= 1) return 1;
  if (scale === 'sqrt') return Math.sqrt(share);
  return scale === 'log' ? Math.max(0, 1 + Math.log10(share) / DECADES) : share;
}

// All values as they are colored: -1 to 1.
export function shades(values: Float32Array, most: number, scale: Choices['scale']): Float32Array {
  const out = new Float32Array(values.length);
  if (!(most > 0)) return out;
  if (scale === 'linear') {
    for (let i = 0; i < values.length; i += 1) {
      const share = values[i] / most;
      out[i] = share > 1 ? 1 : share < -1 ? -1 : share;
    }
    return out;
  }
  for (let i = 0; i < values.length; i += 1) {
    const share = values[i] / most;
    out[i] = share < 0 ? -shade(-share, scale) : shade(share, scale);
  }
  return out;
}
