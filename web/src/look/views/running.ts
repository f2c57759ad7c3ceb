// Tokens as running text: wrapped lines of boxes, each shaded by a value and with a bar of its size
// below, so that the value is not told by color alone.

import type { Choices } from '../choices';
import type { Token } from '../format';
import { shade, type Item } from '../prepare';
import { found, rightToLeft, short } from '../../shared/text';
import type { Frame, Mark } from '../view';
import { box, line, words } from './parts';

export interface Box {
  x: number;
  y: number;
  w: number;
  h: number;
}

export interface Running {
  boxes: Box[]; // one for each item
  height: number;
}

export interface Shading {
  values: ArrayLike<number>; // of each item; NaN: none
  most: number; // the value that is shown in full
  scale: Choices['scale'];
  search: string;
  chosen: (index: number) => boolean; // has a frame
  later: (index: number) => boolean; // is not seen from here
}

const SIZE = 14;
const PAD = 3; // left and right of a token
const BAR = 9; // room for the bar below a token
const TEXT = 20;
const LINE = TEXT + BAR + 6;
const LOWEST = 0.4; // pixels of a bar
const BETWEEN = 5; // words
const STRONGEST = 0.5; // shade under ink that stays readable

// Lines begin at the right where most of the text does.
export function flowing(
  items: Item[], tokens: Token[], x: number, y: number, width: number, measure: Frame['measure'],
): Running {
  const boxes: Box[] = [];
  let [left, top] = [0, 0];
  items.forEach((item, i) => {
    const wide = Math.min(width, Math.ceil(measure(short(item.text), SIZE)) + 2 * PAD);
    const before = items[i - 1];
    if (left > 0) left += sameWord(before, item, tokens) ? 1 : BETWEEN;
    if (left > 0 && (left + wide > width || before.text.includes('\n'))) {
      [left, top] = [0, top + LINE];
    }
    boxes.push({ x: x + left, y: y + top, w: wide, h: TEXT + BAR });
    left += wide;
  });
  if (fromRight(items)) for (const box of boxes) box.x = x + width - (box.x - x) - box.w;
  return { boxes, height: boxes.length === 0 ? 0 : top + TEXT + BAR };
}

function sameWord(one: Item, other: Item, tokens: Token[]): boolean {
  const [first, second] = [tokens[one.tokens[0]], tokens[other.tokens[0]]];
  return !first.special && !second.special && second.word >= 0 && first.word === second.word;
}

function fromRight(items: Item[]): boolean {
  const plain = items.filter((item) => !item.special && /\p{L}/u.test(item.text));
  return plain.filter((item) => rightToLeft(item.text)).length * 2 > plain.length;
}

export function runningMarks(running: Running, items: Item[], shading: Shading): Mark[] {
  const { values, most, scale, search, chosen, later } = shading;
  const marks: Mark[] = [];
  running.boxes.forEach(({ x, y, w }, i) => {
    if (found(items[i].text, search)) {
      marks.push(box(x, y + 1, w, TEXT - 2, { fill: 'found', radius: 2 }));
    }
    const strength = most > 0 ? shade(Math.abs(values[i]) / most, scale) : 0;
    if (strength > 0) {
      const fill = values[i] < 0 ? 's1' : 's0';
      const high = strength * (BAR - 1);
      marks.push(box(x, y, w, TEXT, { fill, opacity: strength * STRONGEST, radius: 2 }));
      // what is negative is hollow
      const look = values[i] < 0 ? { stroke: fill } : { fill };
      if (high >= LOWEST) marks.push(box(x + 1, y + TEXT + 1, w - 2, high, look));
    }
    if (chosen(i)) {
      marks.push(box(x, y, w, TEXT, { stroke: 'ink', radius: 2 }));
      marks.push(box(x - 1, y - 1, w + 2, TEXT + 2, { stroke: 'ink', radius: 3 }));
    }
    const fill = later(i) ? 'dim' : 'ink';
    const look = { fill, limit: w - 2 * PAD + 1 };
    marks.push(words(x + PAD, y + 15, short(items[i].text), SIZE, look));
    if (later(i)) marks.push(line(x + 1, y + TEXT, x + w - 1, y + TEXT, 'rule', { dash: [2, 2] }));
  });
  return marks;
}
