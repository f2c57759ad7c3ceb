// A timeline of all tokens with their probabilities, to move to any position; prompt and generated.

import type { Next, Side } from '../capture-format';
import { percent, quoted } from '../../shared/readable-text';
import type { Mark, Target } from '../view';
import { rectMark, lineMark, textMark } from './marks';

export interface Timeline {
  marks: Mark[];
  height: number;
  currentTarget: Target; // the current step, where arrow keys start
  targetAt: (x: number, y: number) => Target | null;
}

interface TimelineOptions {
  side: Side;
  next: Next;
  step: number;
  x: number;
  y: number;
  w: number;
}

const BARS_HEIGHT = 48; // height of a probability of 1
const STRIP_HEIGHT = 8;
const NAMES_HEIGHT = 19;
const TITLE_HEIGHT = 16;

export function timeline(options: TimelineOptions): Timeline {
  const { side, next, x, y, w } = options;
  const positions = side.sequences[next.sequence].tokens.length + 1; // and the prediction after the text
  const stepWidth = w / positions;
  const base = y + TITLE_HEIGHT + BARS_HEIGHT;
  const target = (position: number): Target => ({
    x: x + position * stepWidth, y: base - BARS_HEIGHT, w: stepWidth,
      h: BARS_HEIGHT + STRIP_HEIGHT + 2,
    ...positionTarget(side, next, position),
  });
  return {
    marks: [
      textMark(x, y + 10, 'Probability of each token, given the tokens before it (dashed line: 50 %)', 11,
        { fill: 'dim', limit: w }),
      rectMark(x, base - BARS_HEIGHT, w, BARS_HEIGHT, { fill: 'card' }),
      lineMark(x, base - BARS_HEIGHT / 2, x + w, base - BARS_HEIGHT / 2, 'dim',
        { dash: [2, 4], opacity: 0.6 }),
      ...barMarks(options, stepWidth, base), ...partMarks(options, stepWidth, base + 2),
        ...cursorMarks(options, stepWidth, base),
    ],
    height: TITLE_HEIGHT + BARS_HEIGHT + 2 + STRIP_HEIGHT + NAMES_HEIGHT,
    currentTarget: target(options.step),
    targetAt: (px, py) => {
      const position = Math.floor((px - x) / stepWidth);
      const inside = py >= base - BARS_HEIGHT && py <= base + STRIP_HEIGHT + 2 && position >= 1
        && position < positions;
      return inside ? target(position) : null;
    },
  };
}

function barMarks({ side, next, x }: TimelineOptions, stepWidth: number, base: number): Mark[] {
  const { tokens, prompt } = side.sequences[next.sequence];
  const gap = stepWidth > 3 ? 1 : 0;
  return tokens.flatMap((_, i) => {
    const actual = i > 0 ? next.actual[i - 1] : null;
    if (actual === null || actual === undefined) return [];
    const barHeight = Math.max(1, actual * BARS_HEIGHT);
    const fill = prompt !== null && i >= prompt ? 's0' : 's5';
    return [rectMark(x + i * stepWidth, base - barHeight, Math.max(0.5, stepWidth - gap),
      barHeight, { fill })];
  });
}

// A thin line for the prompt, a thick one for the generated part, and their names.
function partMarks({ side, next, x }: TimelineOptions, stepWidth: number, y: number): Mark[] {
  const { tokens, prompt } = side.sequences[next.sequence];
  const promptLength = prompt === null ? tokens.length : Math.min(prompt, tokens.length);
  const style = { fill: 'dim', limit: Math.max(40, promptLength * stepWidth - 6) };
  const marks = [
    rectMark(x, y + 2, promptLength * stepWidth, STRIP_HEIGHT / 2, { fill: 's5' }),
    textMark(x, y + STRIP_HEIGHT + 15, prompt === null ? 'text' : 'prompt', 11, style),
  ];
  const generatedWidth = (tokens.length - promptLength) * stepWidth;
  if (generatedWidth <= 0) return marks;
  const isCrowded = promptLength * stepWidth < 48
    || generatedWidth < 60; // the names would overlap, or leave the timeline
  return [
    ...marks,
    rectMark(x + promptLength * stepWidth, y, generatedWidth, STRIP_HEIGHT, { fill: 's0' }),
    textMark(isCrowded ? x + Math.max(110, tokens.length * stepWidth)
      : x + promptLength * stepWidth, y + STRIP_HEIGHT + 15,
      'generated', 11, { fill: 'dim', anchor: isCrowded ? 'end' : 'start' }),
  ];
}

function cursorMarks({ x, step }: TimelineOptions, stepWidth: number, base: number): Mark[] {
  const left = x + step * stepWidth;
  return [3, 4].map((out) => rectMark(left + 3 - out, base - BARS_HEIGHT - out,
    Math.max(3, stepWidth) + 2 * out - 6,
    BARS_HEIGHT + STRIP_HEIGHT + 2 + 2 * out, { stroke: 'accent', radius: 2 }));
}

function positionTarget(
  side: Side, next: Next, position: number,
): Omit<Target, 'x' | 'y' | 'w' | 'h'> {
  const token = side.sequences[next.sequence].tokens[position];
  const actual = token ? next.actual[position - 1] ?? null : null;
  const name = token ? `${quoted(token.text)}, token ${position}` : 'Prediction after the text';
  const lines = actual === null ? [name] : [name, `probability ${percent(actual)}`];
  return {
    label: lines.join(', '), key: `generation/track/${position}`, tooltip: () => lines,
    pick: { step: position }, preview: { step: position },
  };
}
