// Facts about a mask: counts, padding, and a description of its shape (causal, window).

import { count } from '../../shared/readable-text';

export type Permission = 'allowed' | 'forbidden' | 'padding';

export interface MaskFacts {
  queries: number;
  keys: number;
  allowed: number; // pairs
  perQuery: Int32Array; // number of keys that each query may attend to
  padding: Uint8Array; // 1 for a key that no query may attend to
  paddingCount: number; // number of padding keys
  sentence: string; // describes the shape
}

const factsCache = new WeakMap<Float32Array, Map<boolean, MaskFacts>>();

// `aligned`: queries and keys are the same text, so that a key can be before or after a query.
export function maskFacts(
  values: Float32Array | null, queries: number, keys: number, aligned: boolean,
): MaskFacts {
  if (values === null) return unmaskedFacts(queries, keys);
  const byAlignment = factsCache.get(values) ?? new Map<boolean, MaskFacts>();
  factsCache.set(values, byAlignment);
  const facts = byAlignment.get(aligned) ?? computeFacts(values, queries, keys, aligned);
  byAlignment.set(aligned, facts);
  return facts;
}

function unmaskedFacts(queries: number, keys: number): MaskFacts {
  return {
    queries, keys, allowed: queries * keys, perQuery: new Int32Array(queries).fill(keys),
    padding: new Uint8Array(keys), paddingCount: 0,
      sentence: 'Every query may attend to every key.',
  };
}

function computeFacts(
  values: Float32Array, queries: number, keys: number, aligned: boolean,
): MaskFacts {
  const perQuery = new Int32Array(queries);
  const perKey = new Int32Array(keys);
  const offset = keys - queries; // with a key-value cache, older keys come before the first query
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
  const paddingCount = padding.reduce((sum, is) => sum + is, 0);
  const facts = { queries, keys, allowed, perQuery, padding, paddingCount };
  return { ...facts, sentence: describeMask(facts, aligned ? [back, ahead] : null) };
}

function describeMask(facts: Omit<MaskFacts, 'sentence'>, reach: [number, number] | null): string {
  const { allowed, keys, paddingCount } = facts;
  if (allowed === 0) return 'No query may attend to any key.';
  const exception = paddingCount === 0 ? '' : `, except ${count(paddingCount, 'padding key')}`;
  const everywhere = facts.queries + keys;
  if (isBand(facts, everywhere, everywhere)) return `Every query may attend to every key${exception}.`;
  if (reach === null) return `The mask has no simple shape${exception}.`;
  const [back, ahead] = reach;
  if (isBand(facts, everywhere, 0)) return `Causal: a token may attend to itself and to earlier tokens${exception}.`;
  if (!isBand(facts, back, ahead)) {
    const shape = ahead === 0 ? 'Causal, with further restrictions that have' : 'The mask has';
    return `${shape} no simple shape${exception}.`;
  }
  const range = [
    ...(back > 0 ? [`${count(back, 'token')} back`] : []),
    ...(ahead > 0 ? [`${count(ahead, 'token')} ahead`] : []),
  ];
  if (range.length === 0) return `Each token may attend only to itself${exception}.`;
  const name = ahead === 0 ? 'Causal window' : 'Window';
  const together = ['itself', ...range].join(', ').replace(/, ([^,]*)$/, ' and $1');
  return `${name}: a token may attend to ${together}${exception}.`;
}

// Whether exactly the pairs within this distance are allowed, except padding keys. Ignores queries
// that are padding themselves, because their outputs are not used.
function isBand(facts: Omit<MaskFacts, 'sentence'>, back: number, ahead: number): boolean {
  const { queries, keys, padding, perQuery } = facts;
  const offset = keys - queries;
  const realBefore = new Int32Array(keys + 1); // number of keys before each one that are not padding
  for (let key = 0; key < keys; key++) realBefore[key + 1] = realBefore[key] + 1 - padding[key];
  for (let query = 0; query < queries; query++) {
    const position = query + offset;
    if (position >= 0 && padding[position] && perQuery[query] === 0) continue;
    const from = Math.min(Math.max(position - back, 0), keys);
    const end = Math.min(Math.max(position + ahead + 1, from), keys);
    if (realBefore[end] - realBefore[from] !== perQuery[query]) return false;
  }
  return true;
}

export function permission(
  values: Float32Array | null, facts: MaskFacts, query: number, key: number,
): Permission {
  if (values === null || values[query * facts.keys + key] > 0) return 'allowed';
  return facts.padding[key] ? 'padding' : 'forbidden';
}

// The keys that a query may attend to, like "0–3, 7".
export function ranges(values: Float32Array | null, facts: MaskFacts, query: number): string {
  const parts: string[] = [];
  let start = -1;
  for (let key = 0; key <= facts.keys; key++) {
    const isAllowed = key < facts.keys && permission(values, facts, query, key) === 'allowed';
    if (isAllowed && start < 0) start = key;
    if (!isAllowed && start >= 0) {
      parts.push(start === key - 1 ? `${start}` : `${start}–${key - 1}`);
      start = -1;
    }
  }
  return parts.join(', ');
}
