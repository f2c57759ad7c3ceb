// What choices make of a row of weights: sinks, words, threshold and top, in this order. All of it is
// done row by row, so that one row costs no more than itself and nothing large is made on the way.

// A token, or the tokens of one word.
export interface Item {
  text: string;
  tokens: number[];
  special: boolean;
}

// Fills a row with the weights of one query token.
export type Read = (token: number, out: Float32Array) => void;

export interface Steps {
  sinks: Uint8Array; // of each key token: shown, hidden or renormalized
  words: boolean;
  queries: Item[];
  keys: Item[];
  threshold: number;
  top: number;
}

// Makes the row of a query item, as long as there are key items.
export function finisher(
  { sinks, words, queries, keys, threshold, top }: Steps,
  columns: number,
): (read: Read, query: number, out: Float32Array) => void {
  const hides = sinks.some((each) => each > 0);
  const cuts = threshold > 0 || (top > 0 && top < keys.length);
  const places = words ? placesOf(keys, columns) : null;
  const raw = new Float32Array(columns);
  return (read, query, out) => {
    if (places) {
      out.fill(0);
      const { tokens } = queries[query];
      for (const token of tokens) {
        read(token, raw);
        if (hides) hideSinks(raw, sinks);
        join(raw, places, 1 / tokens.length, out);
      }
    } else {
      read(query, out);
      if (hides) hideSinks(out, sinks);
    }
    if (cuts) cut(out, threshold, top);
  };
}

// Rows of a matrix, one after the other.
function* rowsOf(values: Float32Array, columns: number): Generator<Float32Array> {
  for (let start = 0; start < values.length; start += columns)
    yield values.subarray(start, start + columns);
}

export function withoutSinks(
  values: Float32Array,
  columns: number,
  sinks: Uint8Array,
): Float32Array {
  if (!sinks.some((each) => each > 0)) return values;
  const out = values.slice();
  for (const row of rowsOf(out, columns)) hideSinks(row, sinks);
  return out;
}

// What is renormalized keeps the absolute sum of its row, but for what is only hidden.
function hideSinks(row: Float32Array, sinks: Uint8Array): void {
  let rest = 0;
  let taken = 0;
  for (let k = 0; k < row.length; k += 1) {
    const sink = sinks[k];
    if (sink === 0) rest += Math.abs(row[k]);
    else {
      if (sink === 2) taken += Math.abs(row[k]);
      row[k] = 0;
    }
  }
  if (taken === 0) return;
  const factor = rest > 0 ? (rest + taken) / rest : 0;
  for (let k = 0; k < row.length; k += 1) row[k] *= factor;
}

// Weights to a word: the sum over its key tokens, the mean over its query tokens.
export function merge(
  values: Float32Array,
  columns: number,
  queries: Item[],
  keys: Item[],
): Float32Array {
  const out = new Float32Array(queries.length * keys.length);
  const places = placesOf(keys, columns);
  queries.forEach(({ tokens }, q) => {
    const row = out.subarray(q * keys.length, (q + 1) * keys.length);
    for (const token of tokens)
      join(values.subarray(token * columns, (token + 1) * columns), places, 1 / tokens.length, row);
  });
  return out;
}

// Of each key token the place of its item.
function placesOf(keys: Item[], columns: number): Uint32Array {
  const places = new Uint32Array(columns);
  keys.forEach((item, i) => {
    for (const token of item.tokens) places[token] = i;
  });
  return places;
}

function join(row: Float32Array, places: Uint32Array, share: number, out: Float32Array): void {
  for (let k = 0; k < row.length; k += 1) out[places[k]] += share * row[k];
}

export function filter(
  values: Float32Array,
  columns: number,
  threshold: number,
  top: number,
): Float32Array {
  if (threshold <= 0 && (top <= 0 || top >= columns)) return values;
  const out = values.slice();
  for (const row of rowsOf(out, columns)) cut(row, threshold, top);
  return out;
}

function cut(row: Float32Array, threshold: number, top: number): void {
  if (top > 0 && top < row.length) keepLargest(row, top);
  if (threshold <= 0) return;
  for (let k = 0; k < row.length; k += 1) if (Math.abs(row[k]) < threshold) row[k] = 0;
}

let best = new Float32Array(0); // of keepLargest, ascending: made once, not for each row

// Of equal ones at the edge the first stay.
function keepLargest(row: Float32Array, n: number): void {
  if (best.length === n) best.fill(0);
  else best = new Float32Array(n);
  let least = 0;
  for (let k = 0; k < row.length; k += 1) {
    const size = Math.abs(row[k]);
    if (!(size > least)) continue;
    let i = 1;
    for (; i < n && best[i] < size; i += 1) best[i - 1] = best[i];
    best[i - 1] = size;
    least = best[0];
  }
  let left = 1; // as small as the smallest that stays
  while (left < n && best[left] === least) left += 1;
  for (let k = 0; k < row.length; k += 1) {
    const size = Math.abs(row[k]);
    if (size > least || (size === least && (left -= 1) >= 0)) continue;
    row[k] = 0;
  }
}
