// All keys of one query in text order, with scores and weights as bars: what a key competes with.

import type { Token } from '../format';
import { number, quoted, short } from '../../shared/text';
import type { Frame, Mark, Target } from '../view';
import { box, line, words } from './parts';
import type { Scores } from './scores';

const ROW = 18;
const READABLE = 12; // pixels of a row that has room for text
const FEW = 160; // tokens that have such a row each
const TALLEST = 2400; // pixels for more of them
const HEAD = 60;
const FONT = 11;
const APART = 14; // pixels between labels where not every row has one

export interface Competition {
  scores: Scores;
  queries: Token[];
  keys: Token[];
  key: number;
  x: number;
  y: number;
  w: number;
  measure: Frame['measure'];
}

type Column = [number, number]; // left edge and width

interface Rows {
  top: number;
  row: number; // height
  query: Column;
  token: Column;
  score: Column;
  weight: Column;
}

export function competitionHeight(all: Competition): number {
  return HEAD + Math.max(all.queries.length, all.keys.length) * rowsOf(all).row + 8;
}

function rowsOf({ queries, keys, scores, x, y, w }: Competition): Rows {
  const most = Math.max(queries.length, keys.length);
  const row = most <= FEW ? ROW : Math.max(2, Math.min(ROW, TALLEST / most));
  const token = Math.min(150, w * 0.21);
  const start = x + 2 * token + 20;
  const bars = x + w - start;
  const score = scores.scores === null ? 0 : bars / 2 - 6;
  const before = score === 0 ? 0 : score + 12;
  return {
    top: y + HEAD, row, query: [x, token], token: [x + token + 10, token],
    score: [start, score], weight: [start + before, bars - before],
  };
}

export function competitionMarks(all: Competition): Mark[] {
  const { scores, key, queries, keys, measure } = all;
  const { allowed, captured, softmax } = scores;
  const rows = rowsOf(all);
  const marks = [
    ...headings(all, rows),
    frame(rows, rows.query[0], rows.query[1], scores.query),
    frame(rows, rows.token[0], all.x + all.w - rows.token[0], key),
    ...labels(queries, rows.query, rows, [scores.query, ...queries.keys()]),
    ...labels(keys, rows.token, rows, byWeight(scores, key)),
  ];
  if (scores.scores) {
    const axis = axisOf([scores.scores], allowed, rows.score, rows, measure);
    marks.push(...bars(scores.scores, allowed, axis, rows));
  }
  const both = softmax ? [captured, softmax] : [captured];
  const axis = axisOf(both, allowed, rows.weight, rows, measure);
  marks.push(...bars(captured, allowed, axis, rows));
  if (softmax && rows.row >= READABLE) marks.push(...ticks(softmax, allowed, axis, rows));
  return marks;
}

// Around what is chosen; it is never thinner than its label.
function frame({ top, row }: Rows, x: number, w: number, place: number): Mark {
  const high = Math.max(row, APART);
  const y = top + (place + 0.5) * row - high / 2;
  return box(x - 3, y, w + 6, high, { fill: 'card', stroke: 'accent', radius: 3 });
}

function headings(all: Competition, rows: Rows): Mark[] {
  const heading = (text: string, [x, w]: Column): Mark => (
    words(x, all.y + HEAD - 7, text, FONT, { fill: 'dim', limit: w }));
  const marks = [
    words(all.x, all.y + 14, 'All keys of this query', 13, { bold: true, limit: all.w }),
    heading('query', rows.query), heading('key', rows.token), heading('weight', rows.weight),
  ];
  if (all.scores.scores) marks.push(heading('score', rows.score));
  const note = rows.row < READABLE ? 'Named where there is room, the largest weights first.'
    : all.scores.softmax ? 'Bars are captured weights, the line across is the softmax.' : '';
  return [...marks, words(all.x, all.y + 32, note, FONT, { fill: 'dim', limit: all.w })];
}

// Keys in the order in which they deserve a label where there is no room for all.
function byWeight({ captured }: Scores, key: number): number[] {
  const order = Array.from(captured.keys());
  order.sort((one, other) => Math.abs(captured[other]) - Math.abs(captured[one]));
  return [key, ...order];
}

function labels(tokens: Token[], [x, w]: Column, rows: Rows, important: number[]): Mark[] {
  const { top, row } = rows;
  const shown = row >= READABLE ? [...tokens.keys()] : apart(important, row);
  return shown.map((i) => (
    words(x, top + (i + 0.5) * row + 4, short(tokens[i].text), FONT, { mono: true, limit: w })));
}

// As many as have room, the important first.
function apart(important: number[], row: number): number[] {
  const reach = Math.ceil(APART / row); // rows that a label takes, to each side
  const taken = new Set<number>();
  const free = (place: number): boolean => {
    for (let i = place - reach + 1; i < place + reach; i++) if (taken.has(i)) return false;
    return true;
  };
  for (const place of important) if (free(place)) taken.add(place);
  return [...taken];
}

interface Axis {
  place: (value: number) => number;
  end: number; // right edge of the numbers
  room: number; // for a number
}

// From the lowest to the highest value that counts, with 0 always inside.
function axisOf(
  all: ArrayLike<number>[], allowed: Uint8Array, [x, w]: Column, { row }: Rows,
  measure: Frame['measure'],
): Axis {
  let [low, high] = [0, 0];
  for (const values of all) {
    for (let i = 0; i < values.length; i++) {
      if (!allowed[i]) continue;
      low = Math.min(low, values[i]);
      high = Math.max(high, values[i]);
    }
  }
  const room = row >= READABLE ? Math.min(w * 0.7, measure('−00.000', FONT, true) + 6) : 0;
  const span = high - low || 1;
  return { place: (value) => x + ((value - low) / span) * (w - room), end: x + w, room };
}

function bars(values: ArrayLike<number>, allowed: Uint8Array, axis: Axis, rows: Rows): Mark[] {
  const { top, row } = rows;
  const readable = row >= READABLE;
  const margin = readable ? 4 : 0;
  const high = readable ? row - 2 * margin : Math.max(1, row - 0.5);
  const zero = axis.place(0);
  const marks: Mark[] = [];
  for (let i = 0; i < values.length; i++) {
    if (!allowed[i]) continue;
    const end = axis.place(values[i]);
    const fill = values[i] < 0 ? 's1' : 's0';
    const [left, wide] = [Math.min(zero, end), Math.abs(end - zero)];
    marks.push(box(left, top + i * row + margin, wide, high, { fill }));
    if (readable) marks.push(besides(axis, top + (i + 0.5) * row, compact(values[i]), 'ink'));
  }
  for (const middle of masked(allowed, rows)) marks.push(besides(axis, middle, 'masked', 'dim'));
  return [...marks, line(zero, top, zero, top + values.length * row, 'dim')];
}

function besides({ end, room }: Axis, middle: number, text: string, fill: string): Mark {
  const limit = Math.max(60, room);
  return words(end, middle + 4, text, FONT, { mono: true, anchor: 'end', fill, limit });
}

const compact = (value: number): string => (
  value !== 0 && Math.abs(value) < 0.0005 ? '≈0' : number(value, 3));

// Middles of rows that are masked; where rows are thin, of whole runs of them.
function masked(allowed: Uint8Array, { top, row }: Rows): number[] {
  const middles: number[] = [];
  for (let i = 0; i < allowed.length; i++) {
    if (allowed[i]) continue;
    const first = i;
    while (row < READABLE && i + 1 < allowed.length && !allowed[i + 1]) i++;
    if ((i + 1 - first) * row >= READABLE) middles.push(top + ((first + i + 1) / 2) * row);
  }
  return middles;
}

// Where the recomputed softmax ends: at the end of the bar, if it agrees.
function ticks(values: Float64Array, allowed: Uint8Array, axis: Axis, rows: Rows): Mark[] {
  const { top, row } = rows;
  return Array.from(values.keys()).filter((i) => allowed[i]).map((i) => {
    const x = axis.place(values[i]);
    return line(x, top + i * row + 2, x, top + (i + 1) * row - 2, 'ink');
  });
}

export function competitionTargets(all: Competition, tip: (key: number) => string[]): Target[] {
  const { queries, keys, scores } = all;
  const { top, row, query, token } = rowsOf(all);
  const chosen = (is: boolean): string => (is ? ', chosen' : '');
  const state = (i: number): string => (
    scores.allowed[i] ? `weight ${number(scores.captured[i])}` : 'masked');
  return [
    ...queries.map(({ text }, i): Target => ({
      x: query[0] - 3, y: top + i * row, w: query[1] + 6, h: row,
      label: `Query ${i} ${quoted(text)}${chosen(i === scores.query)}`,
      key: `neurons/query/${i}`, pick: { queries: [i] },
    })),
    ...keys.map(({ text }, i): Target => ({
      x: token[0] - 3, y: top + i * row, w: all.x + all.w - token[0] + 6, h: row,
      label: `Key ${i} ${quoted(text)}: ${state(i)}${chosen(i === all.key)}`,
      key: `neurons/key/${i}`, pick: { key: i }, tip: () => tip(i),
    })),
  ];
}
