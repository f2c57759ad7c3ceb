// Which tokens of two texts are the same ones, in order: their longest common subsequence.

import type { Token } from '../format';

export interface Alignment {
  left: Int32Array; // indices in the first text, rising
  right: Int32Array; // the same tokens in the second
  same: boolean; // the texts are equal token by token
  complete: boolean; // false: too long to search, only the common beginning and end are aligned
}

// Cells of the search's table: 2,048 x 2,048 tokens take about 20 ms and 8 MB.
const MOST_CELLS = 1 << 22;

// Tokenizers mark the beginning or the inside of a word differently; the word is the same.
export function comparable(text: string): string {
  const bare = text.replace(/^(##|▁|Ġ)+/u, '').trim().toLowerCase();
  return bare === '' ? text : bare;
}

type Texts = Pick<Token, 'text'>[];

export function align(first: Texts, second: Texts, mostCells = MOST_CELLS): Alignment {
  const left = first.map((token) => comparable(token.text));
  const right = second.map((token) => comparable(token.text));
  const last = (all: string[], back: number): string => all[all.length - 1 - back];
  const shorter = Math.min(left.length, right.length);
  let start = 0;
  while (start < shorter && left[start] === right[start]) start++;
  let end = 0;
  while (end < shorter - start && last(left, end) === last(right, end)) end++;
  const rows = left.length - start - end;
  const columns = right.length - start - end;
  const complete = rows * columns <= mostCells;
  const middle = complete ? commonMiddle(left, right, start, rows, columns) : [];
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

// The textbook table over what is left between the common beginning and the common end.
function commonMiddle(
  left: string[], right: string[], start: number, rows: number, columns: number,
): [number, number][] {
  if (rows === 0 || columns === 0) return [];
  const numbers = new Map<string, number>(); // integers compare faster than texts
  const number = (text: string): number => {
    const known = numbers.get(text);
    if (known !== undefined) return known;
    numbers.set(text, numbers.size);
    return numbers.size - 1;
  };
  const a = Int32Array.from({ length: rows }, (_, i) => number(left[start + i]));
  const b = Int32Array.from({ length: columns }, (_, j) => number(right[start + j]));
  const wide = columns + 1;
  const longest = new Uint16Array((rows + 1) * wide); // of a's rest from i and b's rest from j
  for (let i = rows - 1; i >= 0; i--) {
    for (let j = columns - 1; j >= 0; j--) {
      const here = i * wide + j;
      longest[here] = a[i] === b[j]
        ? longest[here + wide + 1] + 1
        : Math.max(longest[here + wide], longest[here + 1]);
    }
  }
  const pairs: [number, number][] = [];
  let i = 0;
  let j = 0;
  while (i < rows && j < columns) {
    if (a[i] === b[j]) pairs.push([start + i++, start + j++]);
    else if (longest[(i + 1) * wide + j] >= longest[i * wide + j + 1]) i++;
    else j++;
  }
  return pairs;
}
