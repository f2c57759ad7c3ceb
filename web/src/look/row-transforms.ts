// Transforms rows of weights: sinks, words, threshold and top, in this order. It works row by row, so
// that one row does not need the whole matrix and no large intermediate array is allocated.

// A token, or the tokens of one word.
export interface Item {
  text: string;
  tokens: number[];
  special: boolean;
}

// Fills a row with the weights of one query token.
export type ReadRow = (token: number, out: Float32Array) => void;

export interface RowOptions {
  sinks: Uint8Array; // for each key token: 0 shown, 1 hidden, 2 renormalized
  words: boolean;
  queries: Item[];
  keys: Item[];
  threshold: number;
  top: number;
}

// Returns a function that computes the row of a query item, with one number per key item.
export function makeRowTransform(
  { sinks, words, queries, keys, threshold, top }: RowOptions,
  columns: number,
): (read: ReadRow, query: number, out: Float32Array) => void {
  const hidesSinks = sinks.some((each) => each > 0);
  const hasCutoff = threshold > 0 || (top > 0 && top < keys.length);
  const itemOfToken = words ? itemIndexByToken(keys, columns) : null;
  const tokenRow = new Float32Array(columns);
  return (read, query, out) => {
    if (itemOfToken) {
      out.fill(0);
      const { tokens } = queries[query];
      for (const token of tokens) {
        read(token, tokenRow);
        if (hidesSinks) hideSinks(tokenRow, sinks);
        addMerged(tokenRow, itemOfToken, 1 / tokens.length, out);
      }
    } else {
      read(query, out);
      if (hidesSinks) hideSinks(out, sinks);
    }
    if (hasCutoff) cutRow(out, threshold, top);
  };
}

// The rows of a matrix, one after another.
function* rowsOfMatrix(values: Float32Array, columns: number): Generator<Float32Array> {
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
  for (const row of rowsOfMatrix(out, columns)) hideSinks(row, sinks);
  return out;
}

// Renormalizing keeps the absolute sum of the row, except for tokens that are only hidden.
function hideSinks(row: Float32Array, sinks: Uint8Array): void {
  let rest = 0;
  let removed = 0;
  for (let k = 0; k < row.length; k += 1) {
    const sink = sinks[k];
    if (sink === 0) rest += Math.abs(row[k]);
    else {
      if (sink === 2) removed += Math.abs(row[k]);
      row[k] = 0;
    }
  }
  if (removed === 0) return;
  const factor = rest > 0 ? (rest + removed) / rest : 0;
  for (let k = 0; k < row.length; k += 1) row[k] *= factor;
}

// Merges tokens into words: the sum over key tokens, the mean over query tokens.
export function mergeWords(
  values: Float32Array,
  columns: number,
  queries: Item[],
  keys: Item[],
): Float32Array {
  const out = new Float32Array(queries.length * keys.length);
  const itemOfToken = itemIndexByToken(keys, columns);
  queries.forEach(({ tokens }, q) => {
    const row = out.subarray(q * keys.length, (q + 1) * keys.length);
    for (const token of tokens)
      addMerged(
        values.subarray(token * columns, (token + 1) * columns),
        itemOfToken,
        1 / tokens.length,
        row,
      );
  });
  return out;
}

// For each key token the index of its item.
function itemIndexByToken(keys: Item[], columns: number): Uint32Array {
  const itemOfToken = new Uint32Array(columns);
  keys.forEach((item, i) => {
    for (const token of item.tokens) itemOfToken[token] = i;
  });
  return itemOfToken;
}

function addMerged(
  row: Float32Array,
  itemOfToken: Uint32Array,
  fraction: number,
  out: Float32Array,
): void {
  for (let k = 0; k < row.length; k += 1) out[itemOfToken[k]] += fraction * row[k];
}

export function applyCutoffs(
  values: Float32Array,
  columns: number,
  threshold: number,
  top: number,
): Float32Array {
  if (threshold <= 0 && (top <= 0 || top >= columns)) return values;
  const out = values.slice();
  for (const row of rowsOfMatrix(out, columns)) cutRow(row, threshold, top);
  return out;
}

function cutRow(row: Float32Array, threshold: number, top: number): void {
  if (top > 0 && top < row.length) keepLargest(row, top);
  if (threshold <= 0) return;
  for (let k = 0; k < row.length; k += 1) if (Math.abs(row[k]) < threshold) row[k] = 0;
}

let largestValues = new Float32Array(0); // ascending; shared by all calls of keepLargest, to allocate it only once

// Of equal values at the cutoff, keeps the first ones.
function keepLargest(row: Float32Array, n: number): void {
  if (largestValues.length === n) largestValues.fill(0);
  else largestValues = new Float32Array(n);
  let smallest = 0;
  for (let k = 0; k < row.length; k += 1) {
    const magnitude = Math.abs(row[k]);
    if (!(magnitude > smallest)) continue;
    let i = 1;
    for (; i < n && largestValues[i] < magnitude; i += 1) largestValues[i - 1] = largestValues[i];
    largestValues[i - 1] = magnitude;
    smallest = largestValues[0];
  }
  let remaining = 1; // values equal to the cutoff that may stay
  while (remaining < n && largestValues[remaining] === smallest) remaining += 1;
  for (let k = 0; k < row.length; k += 1) {
    const size = Math.abs(row[k]);
    if (size > smallest || (size === smallest && (remaining -= 1) >= 0)) continue;
    row[k] = 0;
  }
}
