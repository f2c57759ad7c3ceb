// All keys of one query in text order, with scores and weights as bars.

import type { Token } from '../capture-format';
import { number, quoted, short } from '../../shared/readable-text';
import type { Frame, Mark, Target } from '../view';
import { rectMark, lineMark, textMark } from './marks';
import type { Scores } from './attention-scores';

export const ROW_HEIGHT = 18;
export const READABLE_PIXELS = 12; // smallest row with text, in pixels
export const MAX_READABLE_ROWS = 160; // up to this many tokens, every row has text
export const MAX_HEIGHT = 2400; // pixels of all rows together, for more tokens
const HEADER_HEIGHT = 60;
const FONT = 11;
const LABEL_DISTANCE = 14; // pixels between labels, if not every row has one

export interface KeyBars {
  scores: Scores;
  queries: Token[];
  keys: Token[];
  key: number;
  x: number;
  y: number;
  w: number;
  measure: Frame['measure'];
}

export type Column = [number, number]; // left edge and width

export interface RowLayout {
  top: number;
  rowHeight: number;
  query: Column;
  token: Column;
  score: Column;
  weight: Column;
}

export function keyBarsHeight(keyBars: KeyBars): number {
  return HEADER_HEIGHT + Math.max(keyBars.queries.length,
    keyBars.keys.length) * layOutRows(keyBars).rowHeight + 8;
}

function layOutRows({ queries, keys, scores, x, y, w }: KeyBars): RowLayout {
  const rowCount = Math.max(queries.length, keys.length);
  const rowHeight = rowCount <= MAX_READABLE_ROWS ? ROW_HEIGHT
    : Math.max(2, Math.min(ROW_HEIGHT, MAX_HEIGHT / rowCount));
  const token = Math.min(150, w * 0.21);
  const barsLeft = x + 2 * token + 20;
  const barsWidth = x + w - barsLeft;
  const score = scores.scores === null ? 0 : barsWidth / 2 - 6;
  const scoreOffset = score === 0 ? 0 : score + 12;
  return {
    top: y + HEADER_HEIGHT, rowHeight, query: [x, token], token: [x + token + 10, token],
    score: [barsLeft, score], weight: [barsLeft + scoreOffset, barsWidth - scoreOffset],
  };
}

export function keyBarsMarks(keyBars: KeyBars): Mark[] {
  const { scores, key, queries, keys, measure } = keyBars;
  const { allowed, captured, softmax } = scores;
  const rows = layOutRows(keyBars);
  const marks = [
    ...headings(keyBars, rows),
    selectionFrame(rows, rows.query[0], rows.query[1], scores.query),
    selectionFrame(rows, rows.token[0], keyBars.x + keyBars.w - rows.token[0], key),
    ...labelMarks(queries, rows.query, rows, [scores.query, ...queries.keys()]),
    ...labelMarks(keys, rows.token, rows, keysByImportance(scores, key)),
  ];
  if (scores.scores) {
    const axis = makeAxis([scores.scores], allowed, rows.score, rows, measure);
    marks.push(...barMarks(scores.scores, allowed, axis, rows));
  }
  const arrays = softmax ? [captured, softmax] : [captured];
  const axis = makeAxis(arrays, allowed, rows.weight, rows, measure);
  marks.push(...barMarks(captured, allowed, axis, rows));
  if (softmax && rows.rowHeight >= READABLE_PIXELS) marks.push(...softmaxTicks(softmax, allowed,
    axis, rows));
  return marks;
}

// A frame around the selected token, never thinner than its label.
export function selectionFrame({ top, rowHeight }: RowLayout, x: number, w: number, index: number): Mark {
  const frameHeight = Math.max(rowHeight, LABEL_DISTANCE);
  const y = top + (index + 0.5) * rowHeight - frameHeight / 2;
  return rectMark(x - 3, y, w + 6, frameHeight, { fill: 'card', stroke: 'accent', radius: 3 });
}

function headings(keyBars: KeyBars, rows: RowLayout): Mark[] {
  const heading = (text: string, [x, w]: Column): Mark => (
    textMark(x, keyBars.y + HEADER_HEIGHT - 7, text, FONT, { fill: 'dim', limit: w }));
  const marks = [
    textMark(keyBars.x, keyBars.y + 14, 'All keys of this query', 13,
      { bold: true, limit: keyBars.w }),
    heading('query', rows.query), heading('key', rows.token), heading('weight', rows.weight),
  ];
  if (keyBars.scores.scores) marks.push(heading('score', rows.score));
  const note = rows.rowHeight < READABLE_PIXELS
    ? 'Labels appear where they fit, the largest weights first.'
    : keyBars.scores.softmax ? 'Bars show captured weights, lines the recomputed softmax.' : '';
  return [...marks, textMark(keyBars.x, keyBars.y + 32, note, FONT,
    { fill: 'dim', limit: keyBars.w })];
}

// Keys in the order of importance of their labels.
export function keysByImportance({ captured }: Scores, key: number): number[] {
  const order = Array.from(captured.keys());
  order.sort((one, other) => Math.abs(captured[other]) - Math.abs(captured[one]));
  return [key, ...order];
}

export function labelMarks(tokens: Token[], [x, w]: Column, rows: RowLayout, important: number[]): Mark[] {
  const { top, rowHeight } = rows;
  const indices = rowHeight >= READABLE_PIXELS ? [...tokens.keys()]
    : nonOverlapping(important, rowHeight);
  return indices.map((i) => (
    textMark(x, top + (i + 0.5) * rowHeight + 4, short(tokens[i].text), FONT,
      { mono: true, limit: w })));
}

// The labels that fit without overlap, the important ones first.
function nonOverlapping(important: number[], row: number): number[] {
  const reach = Math.ceil(LABEL_DISTANCE / row); // rows that a label covers above and below
  const labeled = new Set<number>();
  const isFree = (index: number): boolean => {
    for (let i = index - reach + 1; i < index + reach; i++) if (labeled.has(i)) return false;
    return true;
  };
  for (const index of important) if (isFree(index)) labeled.add(index);
  return [...labeled];
}

interface Axis {
  toPixel: (value: number) => number;
  end: number; // right edge of the numbers
  numberWidth: number; // width of a number
}

// An axis from the lowest to the highest allowed value, including 0.
function makeAxis(
  arrays: ArrayLike<number>[], allowed: Uint8Array, [x, w]: Column, { rowHeight }: RowLayout,
  measure: Frame['measure'],
): Axis {
  let [min, max] = [0, 0];
  for (const values of arrays) {
    for (let i = 0; i < values.length; i++) {
      if (!allowed[i]) continue;
      min = Math.min(min, values[i]);
      max = Math.max(max, values[i]);
    }
  }
  const numberWidth = rowHeight >= READABLE_PIXELS
    ? Math.min(w * 0.7, measure('−00.000', FONT, true) + 6) : 0;
  const span = max - min || 1;
  return { toPixel: (value) => x + ((value - min) / span) * (w - numberWidth), end: x + w,
    numberWidth };
}

function barMarks(values: ArrayLike<number>, allowed: Uint8Array, axis: Axis,
  rows: RowLayout): Mark[] {
  const { top, rowHeight } = rows;
  const readable = rowHeight >= READABLE_PIXELS;
  const margin = readable ? 4 : 0;
  const barHeight = readable ? rowHeight - 2 * margin : Math.max(1, rowHeight - 0.5);
  const zero = axis.toPixel(0);
  const marks: Mark[] = [];
  for (let i = 0; i < values.length; i++) {
    if (!allowed[i]) continue;
    const end = axis.toPixel(values[i]);
    const fill = values[i] < 0 ? 's1' : 's0';
    const [left, barWidth] = [Math.min(zero, end), Math.abs(end - zero)];
    marks.push(rectMark(left, top + i * rowHeight + margin, barWidth, barHeight, { fill }));
    if (readable) marks.push(numberMark(axis, top + (i + 0.5) * rowHeight,
      formatCompact(values[i]), 'ink'));
  }
  for (const middle of maskedMiddles(allowed, rows)) marks.push(numberMark(axis, middle, 'masked',
    'dim'));
  return [...marks, lineMark(zero, top, zero, top + values.length * rowHeight, 'dim')];
}

function numberMark({ end, numberWidth }: Axis, middle: number, text: string, fill: string): Mark {
  const limit = Math.max(60, numberWidth);
  return textMark(end, middle + 4, text, FONT, { mono: true, anchor: 'end', fill, limit });
}

const formatCompact = (value: number): string => (
  value !== 0 && Math.abs(value) < 0.0005 ? '≈0' : number(value, 3));

// The middles of masked rows; if rows are thin, of runs of masked rows.
function maskedMiddles(allowed: Uint8Array, { top, rowHeight }: RowLayout): number[] {
  const middles: number[] = [];
  for (let i = 0; i < allowed.length; i++) {
    if (allowed[i]) continue;
    const first = i;
    while (rowHeight < READABLE_PIXELS && i + 1 < allowed.length && !allowed[i + 1]) i++;
    if ((i + 1 - first) * rowHeight >= READABLE_PIXELS) middles.push(top + ((first + i + 1) / 2) * rowHeight);
  }
  return middles;
}

// Ticks at the recomputed softmax: at the end of the bar, if both agree.
function softmaxTicks(values: Float64Array, allowed: Uint8Array, axis: Axis,
  rows: RowLayout): Mark[] {
  const { top, rowHeight } = rows;
  return Array.from(values.keys()).filter((i) => allowed[i]).map((i) => {
    const x = axis.toPixel(values[i]);
    return lineMark(x, top + i * rowHeight + 2, x, top + (i + 1) * rowHeight - 2, 'ink');
  });
}

export function keyBarsTargets(keyBars: KeyBars, tip: (key: number) => string[]): Target[] {
  const { queries, keys, scores } = keyBars;
  const { top, rowHeight, query, token } = layOutRows(keyBars);
  const selectedSuffix = (is: boolean): string => (is ? ', selected' : '');
  const describeKey = (i: number): string => (
    scores.allowed[i] ? `weight ${number(scores.captured[i])}` : 'masked');
  return [
    ...queries.map(({ text }, i): Target => ({
      x: query[0] - 3, y: top + i * rowHeight, w: query[1] + 6, h: rowHeight,
      label: `Query ${i} ${quoted(text)}${selectedSuffix(i === scores.query)}`,
      key: `neurons/query/${i}`, pick: { queries: [i] },
    })),
    ...keys.map(({ text }, i): Target => ({
      x: token[0] - 3, y: top + i * rowHeight, w: keyBars.x + keyBars.w - token[0] + 6,
        h: rowHeight,
      label: `Key ${i} ${quoted(text)}: ${describeKey(i)}${selectedSuffix(i === keyBars.key)}`,
      key: `neurons/key/${i}`, pick: { key: i }, tooltip: () => tip(i),
    })),
  ];
}
