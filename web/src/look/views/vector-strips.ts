// A vector as a strip of bars, one per element: positive up, negative down.

import { maxAbs } from '../prepare-weights';
import { count, number } from '../../shared/readable-text';
import type { Mark, Target } from '../view';
import { rectMark, lineMark, textMark } from './marks';
import { vectorNorm } from './attention-scores';

export interface Strip {
  name: string;
  showNorm: boolean; // show its norm
  values: Float32Array;
}

export interface StripLayout {
  strip: Strip;
  x: number;
  y: number; // top of the bars
  w: number;
}

const TITLE_HEIGHT = 20;
const BARS_HEIGHT = 44;
export const STRIP_HEIGHT = TITLE_HEIGHT + BARS_HEIGHT + 12;

export function layOutStrip(strip: Strip, x: number, y: number, w: number): StripLayout {
  return { strip, x, y: y + TITLE_HEIGHT, w };
}

export function stripMarks({ strip, x, y, w }: StripLayout): Mark[] {
  const { name, values } = strip;
  const largest = maxAbs(values);
  const middle = y + BARS_HEIGHT / 2;
  const step = w / Math.max(1, values.length);
  const gap = step >= 4 ? 1 : 0;
  const caption = [`largest ${number(largest, 3)}`];
  if (strip.showNorm) caption.unshift(`norm ${number(vectorNorm(values), 3)}`);
  const marks = [
    textMark(x, y - 6, name, 12, { bold: true, limit: w * 0.5 }),
    textMark(x + w, y - 6, caption.slice(0, w < 420 ? 1 : 2).join(', '), 11, {
      anchor: 'end', fill: 'dim', limit: w * 0.5 }),
    rectMark(x, y, w, BARS_HEIGHT, { fill: 'card' }),
  ];
  for (let i = 0; i < values.length; i++) {
    const barHeight = largest > 0 ? (Math.abs(values[i]) / largest) * (BARS_HEIGHT / 2 - 1) : 0;
    if (!(barHeight > 0)) continue;
    const [top, fill] = values[i] > 0 ? [middle - barHeight, 's0'] : [middle, 's1'];
    marks.push(rectMark(x + i * step, top, step - gap, barHeight, { fill }));
  }
  return [...marks, lineMark(x, middle, x + w, middle, 'dim')];
}

// A target for the whole strip, for keyboard navigation: lists its largest elements.
export function stripTarget({ strip, x, y, w }: StripLayout, i: number): Target {
  const byMagnitude = Array.from(strip.values.keys());
  byMagnitude.sort((one, other) => Math.abs(strip.values[other]) - Math.abs(strip.values[one]));
  const largestElements = byMagnitude.slice(0,
    5).map((d) => `element ${d}: ${number(strip.values[d], 5)}`);
  const countText = count(strip.values.length, 'element');
  return {
    x, y: y - TITLE_HEIGHT + 2, w, h: TITLE_HEIGHT - 4, key: `neurons/strip/${i}`,
    label: `${strip.name}, ${countText}; largest ${largestElements.slice(0, 3).join(', ')}`,
    tooltip: () => [`${strip.name}, ${countText}; the largest:`, ...largestElements],
  };
}

// The element under the pointer, with the corresponding elements of the other strips.
export function elementTarget(groups: StripLayout[][], x: number, y: number): Target | null {
  for (const layouts of groups) {
    const layout = layouts.find((each) => (
      y >= each.y && y < each.y + BARS_HEIGHT && x >= each.x && x < each.x + each.w));
    if (!layout) continue;
    const step = layout.w / layout.strip.values.length;
    const d = Math.floor((x - layout.x) / step);
    const numbers = layouts.map(({ strip }) => `${strip.name}: ${number(strip.values[d], 6)}`);
    const lines = [`element ${d}`, ...numbers];
    return {
      x: layout.x + d * step, y: layout.y, w: step, h: BARS_HEIGHT, label: lines.join(', '),
      key: `neurons/element/${layout.strip.name}/${d}`, tooltip: () => lines,
      overlay: () => layouts.map((each) => (
        rectMark(each.x + d * step - 1, each.y - 1, step + 2, BARS_HEIGHT + 2,
          { stroke: 'accent' }))),
    };
  }
  return null;
}
