// Which query may look at which key, and what shape that has: a triangle, a window, padding.

import { count } from '../../shared/text';

export type Permission = 'allowed' | 'forbidden' | 'padding';

export interface MaskFacts {
  queries: number;
  keys: number;
  allowed: number; // pairs
  perQuery: Int32Array; // keys that each query may look at
  padding: Uint8Array; // 1 for a key that no query may look at
  hidden: number; // how many of those
  sentence: string; // the shape in words
}

const known = new WeakMap<Float32Array, Map<boolean, MaskFacts>>();

// `aligned`: queries and keys are the same text, so that a key can stand before or after a query.
export function factsOf(
  values: Float32Array | null, queries: number, keys: number, aligned: boolean,
): MaskFacts {
  if (values === null) return open(queries, keys);
  const before = known.get(values) ?? new Map<boolean, MaskFacts>();
  known.set(values, before);
  const facts = before.get(aligned) ?? study(values, queries, keys, aligned);
  before.set(aligned, facts);
  return facts;
}

function open(queries: number, keys: number): MaskFacts {
  return {
    queries, keys, allowed: queries * keys, perQuery: new Int32Array(queries).fill(keys),
    padding: new Uint8Array(keys), hidden: 0, sentence: 'Every query may look at every key.',
  };
}

function study(
  values: Float32Array, queries: number, keys: number, aligned: boolean,
): MaskFacts {
  const perQuery = new Int32Array(queries);
  const perKey = new Int32Array(keys);
  const offset = keys - queries; // with a cache the first query stands behind older keys
  let [allowed, back, ahead] = [0, 0, 0];
  for (let query = 0; query < queries; query++) {
    for (let key = 0; key < keys; key++) {
      if (!(values[query * keys + key] > 0)) continue;
      allowed++;
      perQuery[query]++;
      perKey[key]++;
      back = Math.max(back, query + offset - key);
      ahead = Math.max(ahead, key - query - offset);
    }
  }
  const padding = Uint8Array.from(perKey, (count) => (count === 0 ? 1 : 0));
  const hidden = padding.reduce((sum, is) => sum + is, 0);
  const facts = { queries, keys, allowed, perQuery, padding, hidden };
  return { ...facts, sentence: inWords(facts, aligned ? [back, ahead] : null) };
}

function inWords(facts: Omit<MaskFacts, 'sentence'>, reach: [number, number] | null): string {
  const { allowed, keys, hidden } = facts;
  if (allowed === 0) return 'No query may look at anything.';
  const but = hidden === 0 ? '' : `, but for ${count(hidden, 'key')} of padding`;
  const far = facts.queries + keys;
  if (isBand(facts, far, far)) return `Every query may look at every key${but}.`;
  if (reach === null) return `What a query may look at has no simple shape${but}.`;
  const [back, ahead] = reach;
  if (isBand(facts, far, 0)) return `Causal: a token may look at itself and at earlier ones${but}.`;
  if (!isBand(facts, back, ahead)) {
    const causal = ahead === 0 ? 'Causal, and narrower: ' : '';
    return `${causal}${causal ? 'what' : 'What'} a token may look at has no simple shape${but}.`;
  }
  const sides = [back > 0 ? `${back} back` : '', ahead > 0 ? `${ahead} ahead` : ''];
  const reaching = sides.filter((side) => side !== '').join(' and ');
  if (reaching === '') return `Each token may look only at itself${but}.`;
  const name = ahead === 0 ? 'Causal window' : 'Window';
  return `${name}: a token may look at itself and ${reaching}${but}.`;
}

// Every pair that is at most so far apart is allowed, padding aside, and no other. Queries that
// are padding themselves may do as they like: nobody reads what they find.
function isBand(facts: Omit<MaskFacts, 'sentence'>, back: number, ahead: number): boolean {
  const { queries, keys, padding, perQuery } = facts;
  const offset = keys - queries;
  const real = new Int32Array(keys + 1); // keys before each that are not padding
  for (let key = 0; key < keys; key++) real[key + 1] = real[key] + 1 - padding[key];
  for (let query = 0; query < queries; query++) {
    const place = query + offset;
    if (place >= 0 && padding[place] && perQuery[query] === 0) continue;
    const from = Math.min(Math.max(place - back, 0), keys);
    const until = Math.min(Math.max(place + ahead + 1, from), keys);
    if (real[until] - real[from] !== perQuery[query]) return false;
  }
  return true;
}

export function permission(
  values: Float32Array | null, facts: MaskFacts, query: number, key: number,
): Permission {
  if (values === null || values[query * facts.keys + key] > 0) return 'allowed';
  return facts.padding[key] ? 'padding' : 'forbidden';
}

// Keys that a query may look at, as "0–3, 7".
export function ranges(values: Float32Array | null, facts: MaskFacts, query: number): string {
  const parts: string[] = [];
  let from = -1;
  for (let key = 0; key <= facts.keys; key++) {
    const may = key < facts.keys && permission(values, facts, query, key) === 'allowed';
    if (may && from < 0) from = key;
    if (!may && from >= 0) {
      parts.push(from === key - 1 ? `${from}` : `${from}–${key - 1}`);
      from = -1;
    }
  }
  return parts.join(', ');
}
