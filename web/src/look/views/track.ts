// All tokens of a text as a track to scrub on: how likely each was, prompt and what was generated.

import type { Next, Side } from '../format';
import { percent, quoted } from '../../shared/text';
import type { Mark, Target } from '../view';
import { box, line, words } from './parts';

export interface Track {
  marks: Mark[];
  height: number;
  here: Target; // the place of the step: where keys begin
  at: (x: number, y: number) => Target | null;
}

interface Asked {
  side: Side;
  next: Next;
  step: number;
  x: number;
  y: number;
  w: number;
}

const BARS = 48; // height of a probability of 1
const STRIP = 8;
const NAMES = 19;
const ABOVE = 16;

export function track(asked: Asked): Track {
  const { side, next, x, y, w } = asked;
  const places = side.sequences[next.sequence].tokens.length + 1; // and what would come next
  const wide = w / places;
  const base = y + ABOVE + BARS;
  const target = (place: number): Target => ({
    x: x + place * wide, y: base - BARS, w: wide, h: BARS + STRIP + 2,
    ...placeTarget(side, next, place),
  });
  return {
    marks: [
      words(x, y + 10, 'Probability of each token, given those before it (dashes: 50 %)', 11,
        { fill: 'dim', limit: w }),
      box(x, base - BARS, w, BARS, { fill: 'card' }),
      line(x, base - BARS / 2, x + w, base - BARS / 2, 'dim', { dash: [2, 4], opacity: 0.6 }),
      ...bars(asked, wide, base), ...parts(asked, wide, base + 2), ...cursor(asked, wide, base),
    ],
    height: ABOVE + BARS + 2 + STRIP + NAMES,
    here: target(asked.step),
    at: (px, py) => {
      const place = Math.floor((px - x) / wide);
      const inside = py >= base - BARS && py <= base + STRIP + 2 && place >= 1 && place < places;
      return inside ? target(place) : null;
    },
  };
}

function bars({ side, next, x }: Asked, wide: number, base: number): Mark[] {
  const { tokens, prompt } = side.sequences[next.sequence];
  const gap = wide > 3 ? 1 : 0;
  return tokens.flatMap((_, i) => {
    const actual = i > 0 ? next.actual[i - 1] : null;
    if (actual === null || actual === undefined) return [];
    const high = Math.max(1, actual * BARS);
    const fill = prompt !== null && i >= prompt ? 's0' : 's5';
    return [box(x + i * wide, base - high, Math.max(0.5, wide - gap), high, { fill })];
  });
}

// A thin line for the prompt, a thick one for what was generated, and their names.
function parts({ side, next, x }: Asked, wide: number, y: number): Mark[] {
  const { tokens, prompt } = side.sequences[next.sequence];
  const split = prompt === null ? tokens.length : Math.min(prompt, tokens.length);
  const look = { fill: 'dim', limit: Math.max(40, split * wide - 6) };
  const marks = [
    box(x, y + 2, split * wide, STRIP / 2, { fill: 's5' }),
    words(x, y + STRIP + 15, prompt === null ? 'text' : 'prompt', 11, look),
  ];
  const rest = (tokens.length - split) * wide;
  if (rest <= 0) return marks;
  const crowded = split * wide < 48 || rest < 60; // the names would touch, or leave the track
  return [
    ...marks,
    box(x + split * wide, y, rest, STRIP, { fill: 's0' }),
    words(crowded ? x + Math.max(110, tokens.length * wide) : x + split * wide, y + STRIP + 15,
      'generated', 11, { fill: 'dim', anchor: crowded ? 'end' : 'start' }),
  ];
}

function cursor({ x, step }: Asked, wide: number, base: number): Mark[] {
  const left = x + step * wide;
  return [3, 4].map((out) => box(left + 3 - out, base - BARS - out, Math.max(3, wide) + 2 * out - 6,
    BARS + STRIP + 2 + 2 * out, { stroke: 'accent', radius: 2 }));
}

function placeTarget(
  side: Side, next: Next, place: number,
): Omit<Target, 'x' | 'y' | 'w' | 'h'> {
  const token = side.sequences[next.sequence].tokens[place];
  const actual = token ? next.actual[place - 1] ?? null : null;
  const name = token ? `${quoted(token.text)}, token ${place}` : 'What would come after the text';
  const said = actual === null ? [name] : [name, `probability ${percent(actual)}`];
  return {
    label: said.join(', '), key: `generation/track/${place}`, tip: () => said,
    pick: { step: place }, preview: { step: place },
  };
}
