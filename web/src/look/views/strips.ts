// A vector as a strip of bars, one for each element: up is positive, down is negative.

import { largest } from '../prepare';
import { count, number } from '../../shared/text';
import type { Mark, Target } from '../view';
import { box, line, words } from './parts';
import { lengthOf } from './scores';

export interface Strip {
  name: string;
  vector: boolean; // its length means something
  values: Float32Array;
}

export interface StripPlace {
  strip: Strip;
  x: number;
  y: number; // of the bars
  w: number;
}

const HEAD = 20;
const BARS = 44;
export const STRIP = HEAD + BARS + 12;

export function placed(strip: Strip, x: number, y: number, w: number): StripPlace {
  return { strip, x, y: y + HEAD, w };
}

export function stripMarks({ strip, x, y, w }: StripPlace): Mark[] {
  const { name, values } = strip;
  const most = largest(values);
  const middle = y + BARS / 2;
  const step = w / Math.max(1, values.length);
  const gap = step >= 4 ? 1 : 0;
  const about = [`largest ${number(most, 3)}`];
  if (strip.vector) about.unshift(`length ${number(lengthOf(values), 3)}`);
  const marks = [
    words(x, y - 6, name, 12, { bold: true, limit: w * 0.5 }),
    words(x + w, y - 6, about.slice(0, w < 420 ? 1 : 2).join(', '), 11, {
      anchor: 'end', fill: 'dim', limit: w * 0.5 }),
    box(x, y, w, BARS, { fill: 'card' }),
  ];
  for (let i = 0; i < values.length; i++) {
    const high = most > 0 ? (Math.abs(values[i]) / most) * (BARS / 2 - 1) : 0;
    if (!(high > 0)) continue;
    const [top, fill] = values[i] > 0 ? [middle - high, 's0'] : [middle, 's1'];
    marks.push(box(x + i * step, top, step - gap, high, { fill }));
  }
  return [...marks, line(x, middle, x + w, middle, 'dim')];
}

// A strip as a whole, for the keyboard: its largest elements.
export function stripTarget({ strip, x, y, w }: StripPlace, i: number): Target {
  const order = Array.from(strip.values.keys());
  order.sort((one, other) => Math.abs(strip.values[other]) - Math.abs(strip.values[one]));
  const most = order.slice(0, 5).map((d) => `element ${d}: ${number(strip.values[d], 5)}`);
  const size = count(strip.values.length, 'element');
  return {
    x, y: y - HEAD + 2, w, h: HEAD - 4, key: `neurons/strip/${i}`,
    label: `${strip.name}, ${size}; largest ${most.slice(0, 3).join(', ')}`,
    tip: () => [`${strip.name}, ${size}; the largest:`, ...most],
  };
}

// The element under the pointer, with the same element of strips that belong together.
export function elementTarget(groups: StripPlace[][], x: number, y: number): Target | null {
  for (const places of groups) {
    const place = places.find((each) => (
      y >= each.y && y < each.y + BARS && x >= each.x && x < each.x + each.w));
    if (!place) continue;
    const step = place.w / place.strip.values.length;
    const d = Math.floor((x - place.x) / step);
    const numbers = places.map(({ strip }) => `${strip.name}: ${number(strip.values[d], 6)}`);
    const told = [`element ${d}`, ...numbers];
    return {
      x: place.x + d * step, y: place.y, w: step, h: BARS, label: told.join(', '),
      key: `neurons/element/${place.strip.name}/${d}`, tip: () => told,
      over: () => places.map((each) => (
        box(each.x + d * step - 1, each.y - 1, step + 2, BARS + 2, { stroke: 'accent' }))),
    };
  }
  return null;
}
