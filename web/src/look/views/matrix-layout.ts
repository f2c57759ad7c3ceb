// Layout of the matrix view: position, visible part, and the weight with the full color.

import type { Choices } from '../choices';
import { maxAbs, prepareWeights, type Item, type PreparedWeights } from '../prepare-weights';
import { short } from '../../shared/readable-text';
import type { Frame } from '../view';
import { meanHead, type DisplayedHead } from './strongest-lines';

export const PADDING = 12;
export const TITLE_HEIGHT = 26;
export const LEGEND_HEIGHT = 34;
export const LABEL_HEIGHT = 12; // height of a label, in pixels
const MAX_CELL_PIXELS = 44; // largest cell, in pixels
const BINS = 1000;
const MAX_EXCEEDING = 0.005; // fraction of nonzero cells that may exceed the full color

type VisibleWindow = [number, number, number, number]; // first and last query, first and last key

export interface MatrixLayout {
  prepared: PreparedWeights;
  displayed: DisplayedHead;
  largest: number; // largest absolute weight
  fullColorWeight: number; // weight with the full color
  window: VisibleWindow;
  x: number;
  y: number;
  cell: number;
  rows: number;
  columns: number;
}

// The zoomed part, or everything if the zoom does not fit (there are fewer words than tokens).
function visibleWindow(prepared: PreparedWeights, zoom: Choices['zoom']): VisibleWindow {
  const [bottom, right] = [prepared.queries.length - 1, prepared.keys.length - 1];
  return zoom && zoom[1] <= bottom && zoom[3] <= right ? zoom : [0, bottom, 0, right];
}

export function layOutMatrix(frame: Frame): MatrixLayout {
  const { choices, width, height, measure } = frame;
  const prepared = prepareWeights(frame.capture, choices);
  const displayed = meanHead(prepared);
  const window = visibleWindow(prepared, choices.zoom);
  const [rows, columns] = [window[1] - window[0] + 1, window[3] - window[2] + 1];
  const labelSpace = (items: Item[], maxWidth: number): number => {
    let widest = 24;
    for (const item of items) widest = Math.max(widest, measure(short(item.text), 12) + 14);
    return Math.ceil(Math.min(maxWidth, widest));
  };
  const x =
    PADDING +
    labelSpace(prepared.queries.slice(window[0], window[1] + 1), Math.min(150, width * 0.25));
  const y =
    TITLE_HEIGHT +
    labelSpace(prepared.keys.slice(window[2], window[3] + 1), Math.min(110, height * 0.22));
  const cellSizes = [
    (width - x - PADDING) / columns,
    (Math.max(height, 260) - y - LEGEND_HEIGHT - PADDING) / rows,
  ];
  const cell = Math.min(
    MAX_CELL_PIXELS,
    Math.max(Math.min(...cellSizes), 120 / Math.max(rows, columns)),
  );
  const largest = maxAbs(displayed.values);
  return {
    prepared,
    displayed,
    largest,
    fullColorWeight: findFullColorWeight(displayed.values, largest),
    window,
    x,
    y,
    cell,
    rows,
    columns,
  };
}

// The first token attends only to itself, with weight 1. A few such cells would make all others pale.
function findFullColorWeight(values: Float32Array, largest: number): number {
  if (!(largest > 0)) return 0;
  const counts = new Uint32Array(BINS + 1);
  let count = 0;
  for (let i = 0; i < values.length; i += 1) {
    const magnitude = Math.abs(values[i]);
    if (!(magnitude > 0)) continue;
    counts[Math.floor((magnitude / largest) * BINS)] += 1;
    count += 1;
  }
  let [bin, countAbove] = [BINS, 0];
  while (bin > 0 && countAbove + counts[bin] <= count * MAX_EXCEEDING) countAbove += counts[bin--];
  return (largest * Math.min(BINS, bin + 1)) / BINS;
}
