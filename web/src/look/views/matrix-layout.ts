// Where the matrix stands, which part of it is seen, and which weight has the full color.

import type { Choices } from '../choices';
import { largest, prepare, type Item, type Seen } from '../prepare';
import { short } from '../../shared/text';
import type { Frame } from '../view';
import { meanHead, type Shown } from './lines';

export const PAD = 12;
export const TITLE = 26;
export const LEGEND = 34;
export const LABEL = 12; // pixels that a label needs
const LARGEST = 44; // pixels of a cell
const BINS = 1000;
const FEW = 0.005; // of the cells that are not 0

type Window = [number, number, number, number]; // first and last query, first and last key

export interface Plan {
  seen: Seen;
  shown: Shown;
  most: number; // the largest size
  full: number; // what has the full color
  window: Window;
  x: number;
  y: number;
  cell: number;
  rows: number;
  columns: number;
}

// The zoom, as far as it lies within what is there (words are fewer than tokens).
function windowOf(seen: Seen, zoom: Choices['zoom']): Window {
  const [bottom, right] = [seen.queries.length - 1, seen.keys.length - 1];
  return zoom && zoom[1] <= bottom && zoom[3] <= right ? zoom : [0, bottom, 0, right];
}

export function plan(frame: Frame): Plan {
  const { choices, width, height, measure } = frame;
  const seen = prepare(frame.opened, choices);
  const shown = meanHead(seen);
  const window = windowOf(seen, choices.zoom);
  const [rows, columns] = [window[1] - window[0] + 1, window[3] - window[2] + 1];
  const gutter = (items: Item[], most: number): number => {
    let wide = 24;
    for (const item of items) wide = Math.max(wide, measure(short(item.text), 12) + 14);
    return Math.ceil(Math.min(most, wide));
  };
  const x = PAD + gutter(seen.queries.slice(window[0], window[1] + 1), Math.min(150, width * 0.25));
  const y = TITLE + gutter(seen.keys.slice(window[2], window[3] + 1), Math.min(110, height * 0.22));
  const free = [(width - x - PAD) / columns, (Math.max(height, 260) - y - LEGEND - PAD) / rows];
  const cell = Math.min(LARGEST, Math.max(Math.min(...free), 120 / Math.max(rows, columns)));
  const most = largest(shown.values);
  return {
    seen,
    shown,
    most,
    full: fullColor(shown.values, most),
    window,
    x,
    y,
    cell,
    rows,
    columns,
  };
}

// A first token looks at itself alone, with weight 1: a few such cells would leave all others pale.
function fullColor(values: Float32Array, most: number): number {
  if (!(most > 0)) return 0;
  const counts = new Uint32Array(BINS + 1);
  let all = 0;
  for (let i = 0; i < values.length; i += 1) {
    const size = Math.abs(values[i]);
    if (!(size > 0)) continue;
    counts[Math.floor((size / most) * BINS)] += 1;
    all += 1;
  }
  let [bin, above] = [BINS, 0];
  while (bin > 0 && above + counts[bin] <= all * FEW) above += counts[bin--];
  return (most * Math.min(BINS, bin + 1)) / BINS;
}
