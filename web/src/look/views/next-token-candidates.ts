// The most likely next tokens as bars. The token that really follows is marked.

import type { Next, Side } from '../capture-format';
import { percent, quoted, short } from '../../shared/readable-text';
import type { Frame, Mark, Target } from '../view';
import { normalizeToken } from './align-tokens';
import { rectMark, lineMark, textMark } from './marks';

export interface Candidate {
  text: string;
  probability: number;
  rank: number | null; // null if it is not among the stored candidates
  isActual: boolean;
}

const ROW_HEIGHT = 26;
const TITLE_HEIGHT = 26;
const GAP_HEIGHT = 8; // pixels between the stored candidates and another token
const NUMBER_WIDTH = 62; // pixels for a number
const MARK_WIDTH = 56; // pixels for the mark

// The most likely tokens at a step, and the actual token if it is not among them.
export function nextTokenCandidates(next: Next, side: Side, step: number): Candidate[] {
  const token = side.sequences[next.sequence].tokens[step];
  const actual = next.actual[step - 1] ?? null;
  const top = next.top[step - 1] ?? [];
  const actualRank = token === undefined ? -1 : findActual(top, token.text, actual);
  const candidates: Candidate[] = top.map(([text, probability], rank) => (
    { text, probability, rank, isActual: rank === actualRank }));
  if (token !== undefined && actual !== null && actualRank < 0) {
    candidates.push({ text: token.text, probability: actual, rank: null, isActual: true });
  }
  return candidates;
}

// Index of the actual token: by its text, or by its word without marks. Several tokens can have the
// same text (bytes of one character); the probability distinguishes them.
function findActual(top: Next['top'][number], text: string, actual: number | null): number {
  const isNear = (probability: number): boolean => (
    actual === null || Math.abs(probability - actual) <= 1e-3 * Math.max(probability, actual));
  const exact = top.findIndex(([each, probability]) => each === text && isNear(probability));
  if (exact >= 0 || actual === null) return exact;
  return top.findIndex(([each, probability]) => (
    isNear(probability) && normalizeToken(each) === normalizeToken(text)));
}

export interface CandidateRows {
  y: number;
  height: number;
  marks: Mark[];
  targets: Target[];
}

export function candidateRows(
  candidates: Candidate[], x: number, y: number, w: number, measure: Frame['measure'], step: number,
): CandidateRows {
  const marks = [textMark(x, y + 12, `Candidates for token ${step}`, 12,
    { fill: 'dim', limit: w })];
  if (candidates.length === 0) {
    const text = 'The capture has no probabilities for this position.';
    marks.push(textMark(x, y + TITLE_HEIGHT + 14, text, 12, { fill: 'dim', limit: w }));
    return { y, height: TITLE_HEIGHT + ROW_HEIGHT, marks, targets: [] };
  }
  const widestName = Math.max(40,
    ...candidates.map((each) => measure(short(each.text), 14) * 1.08)) + 14;
  const nameWidth = Math.min(w * 0.4, widestName);
  const targets: Target[] = [];
  const largest = Math.max(...candidates.map((each) => each.probability), 1e-9);
  let top = y + TITLE_HEIGHT;
  candidates.forEach((candidate, i) => {
    if (candidate.rank === null && i > 0) {
      marks.push(lineMark(x, top + 1, x + w, top + 1, 'dim', { dash: [3, 3] }));
      top += GAP_HEIGHT;
    }
    marks.push(...candidateMarks(candidate, x, top, w, nameWidth, candidate.probability / largest));
    const suffix = candidate.isActual ? ', the actual token' : '';
    const label = `${quoted(candidate.text)} ${percent(candidate.probability)}${suffix}`;
    const key = `generation/likely/${i}`;
    targets.push({ x, y: top, w, h: ROW_HEIGHT - 4, label, key, tooltip: () => [label] });
    top += ROW_HEIGHT;
  });
  return { y, height: top - y, marks, targets };
}

function candidateMarks(
  { text, probability, isActual }: Candidate, x: number, top: number, w: number, nameWidth: number,
  fraction: number,
): Mark[] {
  const length = Math.max(1, fraction * Math.max(20, w - nameWidth - NUMBER_WIDTH - MARK_WIDTH));
  const base = top + 15;
  const marks = [
    textMark(x, base, short(text), 14, { bold: isActual, limit: nameWidth - 8 }),
    rectMark(x + nameWidth, top + 3, length, 15, { fill: isActual ? 's1' : 's0', radius: 2 }),
    textMark(x + nameWidth + length + 6, base, percent(probability), 12,
      { fill: isActual ? 'ink' : 'dim', bold: isActual }),
  ];
  if (!isActual) return marks;
  return [
    ...marks, rectMark(x - 4, top, w + 4, ROW_HEIGHT - 5, { stroke: 's1', radius: 3 }),
    textMark(x + w - 6, base, '◂ actual', 12, { bold: true, anchor: 'end' }),
  ];
}
