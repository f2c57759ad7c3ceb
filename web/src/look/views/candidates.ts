// What may come next, as bars; what really came is marked.

import type { Next, Side } from '../format';
import { percent, quoted, short } from '../../shared/text';
import type { Frame, Mark, Target } from '../view';
import { comparable } from './align';
import { box, line, words } from './parts';

export interface Candidate {
  text: string;
  probability: number;
  rank: number | null; // null: not among those that were kept
  came: boolean;
}

const ROW = 26;
const HEAD = 26;
const APART = 8; // between the likeliest and one that is not among them
const NUMBER = 62; // room for a number
const CAME = 56; // room for the mark

// The likeliest tokens before a step, and the one that came if it is not among them.
export function candidates(next: Next, side: Side, step: number): Candidate[] {
  const token = side.sequences[next.sequence].tokens[step];
  const actual = next.actual[step - 1] ?? null;
  const top = next.top[step - 1] ?? [];
  const same = token === undefined ? -1 : cameAt(top, token.text, actual);
  const all: Candidate[] = top.map(([text, probability], rank) => (
    { text, probability, rank, came: rank === same }));
  if (token !== undefined && actual !== null && same < 0) {
    all.push({ text: token.text, probability: actual, rank: null, came: true });
  }
  return all;
}

// By its text; where that is written otherwise, by its word. Several tokens can have one text
// (bytes of a character): the probability tells them apart.
function cameAt(top: Next['top'][number], text: string, actual: number | null): number {
  const near = (probability: number): boolean => (
    actual === null || Math.abs(probability - actual) <= 1e-3 * Math.max(probability, actual));
  const exact = top.findIndex(([each, probability]) => each === text && near(probability));
  if (exact >= 0 || actual === null) return exact;
  return top.findIndex(([each, probability]) => (
    near(probability) && comparable(each) === comparable(text)));
}

export interface Rows {
  y: number;
  height: number;
  marks: Mark[];
  targets: Target[];
}

export function candidateRows(
  likely: Candidate[], x: number, y: number, w: number, measure: Frame['measure'], step: number,
): Rows {
  const marks = [words(x, y + 12, `What may come as token ${step}`, 12, { fill: 'dim', limit: w })];
  if (likely.length === 0) {
    const text = 'No probabilities were kept for this place.';
    marks.push(words(x, y + HEAD + 14, text, 12, { fill: 'dim', limit: w }));
    return { y, height: HEAD + ROW, marks, targets: [] };
  }
  const widest = Math.max(40, ...likely.map((each) => measure(short(each.text), 14) * 1.08)) + 14;
  const names = Math.min(w * 0.4, widest);
  const targets: Target[] = [];
  const most = Math.max(...likely.map((each) => each.probability), 1e-9);
  let top = y + HEAD;
  likely.forEach((each, i) => {
    if (each.rank === null && i > 0) {
      marks.push(line(x, top + 1, x + w, top + 1, 'dim', { dash: [3, 3] }));
      top += APART;
    }
    marks.push(...rowMarks(each, x, top, w, names, each.probability / most));
    const came = each.came ? ', what came' : '';
    const label = `${quoted(each.text)} ${percent(each.probability)}${came}`;
    const key = `generation/likely/${i}`;
    targets.push({ x, y: top, w, h: ROW - 4, label, key, tip: () => [label] });
    top += ROW;
  });
  return { y, height: top - y, marks, targets };
}

function rowMarks(
  { text, probability, came }: Candidate, x: number, top: number, w: number, names: number,
  share: number,
): Mark[] {
  const length = Math.max(1, share * Math.max(20, w - names - NUMBER - CAME));
  const base = top + 15;
  const marks = [
    words(x, base, short(text), 14, { bold: came, limit: names - 8 }),
    box(x + names, top + 3, length, 15, { fill: came ? 's1' : 's0', radius: 2 }),
    words(x + names + length + 6, base, percent(probability), 12,
      { fill: came ? 'ink' : 'dim', bold: came }),
  ];
  if (!came) return marks;
  return [
    ...marks, box(x - 4, top, w + 4, ROW - 5, { stroke: 's1', radius: 3 }),
    words(x + w - 6, base, '◂ came', 12, { bold: true, anchor: 'end' }),
  ];
}
