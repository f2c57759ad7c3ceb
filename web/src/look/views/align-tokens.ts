// Aligns the tokens of two texts: their longest common subsequence.

import type { Token } from '../capture-format';

export interface Alignment {
  left: Int32Array; // indices in the first text, ascending
  right: Int32Array; // the matching indices in the second text
  same: boolean; // the texts are equal token by token
  complete: boolean; // if false, the texts are too long: only their common beginning and end are aligned
}

// Limit of the dynamic programming table: 2,048 x 2,048 tokens take about 20 ms and 8 MB.
const MAX_CELLS = 1 << 22;

// The text without the marks that tokenizers put before a word or within it, in lower case.
export function normalizeToken(text: string): string {
  const bare = text.replace(/^(##|▁|Ġ)+/u, '').trim().toLowerCase();
  return bare === '' ? text : bare;
}

type TokenTexts = Pick<Token, 'text'>[];

export function alignTokens(first: TokenTexts, second: TokenTexts,
  maxCells = MAX_CELLS): Alignment {
  const left = first.map((token) => normalizeToken(token.text));
  const right = second.map((token) => normalizeToken(token.text));
  const fromEnd = (all: string[], back: number): string => all[all.length - 1 - back];
  const shorter = Math.min(left.length, right.length);
  let start = 0;
  while (start < shorter && left[start] === right[start]) start++;
  let end = 0;
  while (end < shorter - start && fromEnd(left, end) === fromEnd(right, end)) end++;
  const rows = left.length - start - end;
  const columns = right.length - start - end;
  const complete = rows * columns <= maxCells;
  const middle = complete ? alignMiddle(left, right, start, rows, columns) : [];
  const pairs: [number, number][] = [];
  for (let i = 0; i < start; i++) pairs.push([i, i]);
  pairs.push(...middle);
  for (let i = end; i > 0; i--) pairs.push([left.length - i, right.length - i]);
  return {
    left: Int32Array.from(pairs, (pair) => pair[0]),
    right: Int32Array.from(pairs, (pair) => pair[1]),
    same: first.length === second.length
      && first.every(({ text }, i) => text === second[i].text),
    complete,
  };
}

// Dynamic programming over the part between the common beginning and the common end.
function alignMiddle(
  left: string[], right: string[], start: number, rows: number, columns: number,
): [number, number][] {
  if (rows === 0 || columns === 0) return [];
  const ids = new Map<string, number>(); // comparing integers is faster than comparing texts
  const idOf = (text: string): number => {
    const id = ids.get(text);
    if (id !== undefined) return id;
    ids.set(text, ids.size);
    return ids.size - 1;
  };
  const a = Int32Array.from({ length: rows }, (_, i) => idOf(left[start + i]));
  const b = Int32Array.from({ length: columns }, (_, j) => idOf(right[start + j]));
  const width = columns + 1;
  const longest = new Uint16Array((rows + 1) * width); // common subsequence of a from i on and b from j on
  for (let i = rows - 1; i >= 0; i--) {
    for (let j = columns - 1; j >= 0; j--) {
      const cell = i * width + j;
      longest[cell] = a[i] === b[j]
        ? longest[cell + width + 1] + 1
        : Math.max(longest[cell + width], longest[cell + 1]);
    }
  }
  const pairs: [number, number][] = [];
  let i = 0;
  let j = 0;
  while (i < rows && j < columns) {
    if (a[i] === b[j]) pairs.push([start + i++, start + j++]);
    else if (longest[(i + 1) * width + j] >= longest[i * width + j + 1]) i++;
    else j++;
  }
  return pairs;
}
