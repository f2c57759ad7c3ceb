// Tokens as wrapped text. Each is shaded by a value and has a bar below it, so that color is not the
// only cue.

import type { Choices } from '../choices';
import type { Token } from '../capture-format';
import { colorStrength, type Item } from '../prepare-weights';
import { matchesSearch, rightToLeft, short } from '../../shared/readable-text';
import type { Frame, Mark } from '../view';
import { rectMark, lineMark, textMark } from './marks';

export interface Box {
  x: number;
  y: number;
  w: number;
  h: number;
}

export interface TextLayout {
  boxes: Box[]; // one for each item
  height: number;
}

export interface Shading {
  values: ArrayLike<number>; // one per item; NaN shows no shade
  largest: number; // value with the full shade
  scale: Choices['scale'];
  search: string;
  isSelected: (index: number) => boolean; // draws a frame
  isLater: (index: number) => boolean; // draws it dimmed: it comes after the query
}

const FONT_SIZE = 14;
const PADDING = 3; // left and right of a token
const BAR_HEIGHT = 9; // height of the bar below a token
const TEXT_HEIGHT = 20;
const LINE_HEIGHT = TEXT_HEIGHT + BAR_HEIGHT + 6;
const MIN_BAR_HEIGHT = 0.4; // smallest bar, in pixels
const WORD_GAP = 5; // pixels between words
const MAX_OPACITY = 0.5; // largest opacity under readable text

// Lines start at the right if most of the text is written right to left.
export function layOutText(
  items: Item[], tokens: Token[], x: number, y: number, width: number, measure: Frame['measure'],
): TextLayout {
  const boxes: Box[] = [];
  let [left, top] = [0, 0];
  items.forEach((item, i) => {
    const boxWidth = Math.min(width, Math.ceil(measure(short(item.text), FONT_SIZE)) + 2 * PADDING);
    const previous = items[i - 1];
    if (left > 0) left += isSameWord(previous, item, tokens) ? 1 : WORD_GAP;
    if (left > 0 && (left + boxWidth > width || previous.text.includes('\n'))) {
      [left, top] = [0, top + LINE_HEIGHT];
    }
    boxes.push({ x: x + left, y: y + top, w: boxWidth, h: TEXT_HEIGHT + BAR_HEIGHT });
    left += boxWidth;
  });
  if (isRightToLeft(items)) for (const box of boxes) box.x = x + width - (box.x - x) - box.w;
  return { boxes, height: boxes.length === 0 ? 0 : top + TEXT_HEIGHT + BAR_HEIGHT };
}

function isSameWord(one: Item, other: Item, tokens: Token[]): boolean {
  const [first, second] = [tokens[one.tokens[0]], tokens[other.tokens[0]]];
  return !first.special && !second.special && second.word >= 0 && first.word === second.word;
}

function isRightToLeft(items: Item[]): boolean {
  const words = items.filter((item) => !item.special && /\p{L}/u.test(item.text));
  return words.filter((item) => rightToLeft(item.text)).length * 2 > words.length;
}

export function shadedTextMarks(layout: TextLayout, items: Item[], shading: Shading): Mark[] {
  const { values, largest, scale, search, isSelected, isLater } = shading;
  const marks: Mark[] = [];
  layout.boxes.forEach(({ x, y, w }, i) => {
    if (matchesSearch(items[i].text, search)) {
      marks.push(rectMark(x, y + 1, w, TEXT_HEIGHT - 2, { fill: 'found', radius: 2 }));
    }
    const strength = largest > 0 ? colorStrength(Math.abs(values[i]) / largest, scale) : 0;
    if (strength > 0) {
      const fill = values[i] < 0 ? 's1' : 's0';
      const barHeight = strength * (BAR_HEIGHT - 1);
      marks.push(rectMark(x, y, w, TEXT_HEIGHT,
        { fill, opacity: strength * MAX_OPACITY, radius: 2 }));
      // bars of negative values are hollow
      const barStyle = values[i] < 0 ? { stroke: fill } : { fill };
      if (barHeight >= MIN_BAR_HEIGHT) marks.push(rectMark(x + 1, y + TEXT_HEIGHT + 1, w - 2,
        barHeight, barStyle));
    }
    if (isSelected(i)) {
      marks.push(rectMark(x, y, w, TEXT_HEIGHT, { stroke: 'ink', radius: 2 }));
      marks.push(rectMark(x - 1, y - 1, w + 2, TEXT_HEIGHT + 2, { stroke: 'ink', radius: 3 }));
    }
    const fill = isLater(i) ? 'dim' : 'ink';
    const textStyle = { fill, limit: w - 2 * PADDING + 1 };
    marks.push(textMark(x + PADDING, y + 15, short(items[i].text), FONT_SIZE, textStyle));
    if (isLater(i)) marks.push(lineMark(x + 1, y + TEXT_HEIGHT, x + w - 1, y + TEXT_HEIGHT, 'rule',
      { dash: [2, 2] }));
  });
  return marks;
}
