// A heatmap with token labels along the edges. The compare view shows several side by side.

import type { Choices } from '../choices';
import { maxAbs, colorStrengths, type Item } from '../prepare-weights';
import { number, short } from '../../shared/readable-text';
import type { Frame, Mark } from '../view';
import { rectMark, lineMark, textMark } from './marks';

export interface HeatmapPanel {
  title: string;
  x: number; // of the whole panel, with labels
  y: number;
  w: number; // largest width
  h: number; // largest height, if cells stay large enough
  measure: Frame['measure'];
  rows: Item[];
  columns: Item[];
  values: Float32Array; // (rows, columns)
  fullColorValue: number; // value with the full color
  signed: boolean;
  scale: Choices['scale'];
}

export interface Rect {
  x: number;
  y: number;
  w: number;
  h: number;
}

const TITLE_HEIGHT = 22;
const LEGEND_HEIGHT = 34;
const LABEL_DISTANCE = 12; // smallest distance between labels, in pixels
const MAX_CELL_PIXELS = 56; // largest cell, in pixels
const MIN_CELLS_HEIGHT = 260; // smallest height of all cells, even in a low window
const FONT = 11;

// Caches the area of the cells of each panel.
const cellsCache = new WeakMap<HeatmapPanel, Rect>();

export function cellsRect(panel: HeatmapPanel): Rect {
  const cached = cellsCache.get(panel);
  if (cached) return cached;
  const { x, y, w, h, rows, columns } = panel;
  const [left, above] = [labelWidth(panel, rows), labelWidth(panel, columns)];
  const longest = Math.max(1, rows.length, columns.length);
  const rowHeight = Math.max(h - TITLE_HEIGHT - above - LEGEND_HEIGHT, MIN_CELLS_HEIGHT) / longest;
  const cell = Math.min(MAX_CELL_PIXELS, (w - left) / longest, rowHeight);
  const rect = {
    x: x + left, y: y + TITLE_HEIGHT + above, w: cell * columns.length, h: cell * rows.length };
  cellsCache.set(panel, rect);
  return rect;
}

function labelWidth({ w, measure }: HeatmapPanel, items: Item[]): number {
  const maxWidth = Math.min(84, Math.floor(w * 0.24));
  let widest = 20;
  for (const item of items) {
    if (widest >= maxWidth) break;
    widest = Math.max(widest, measure(short(item.text, 14), FONT) + 8);
  }
  return Math.min(maxWidth, Math.ceil(widest));
}

export function panelHeight(panel: HeatmapPanel): number {
  const cells = cellsRect(panel);
  return cells.y - panel.y + cells.h + LEGEND_HEIGHT;
}

export interface PooledMatrix {
  rows: number;
  columns: number;
  values: Float32Array;
}

// If cells are smaller than a pixel, each pixel shows its largest cell. A mean would hide thin lines.
export function poolMatrix(
  values: Float32Array, rows: number, columns: number, toRows: number, toColumns: number,
): PooledMatrix {
  const [pixelRows, pixelColumns] = [Math.min(rows, toRows), Math.min(columns, toColumns)];
  if (pixelRows === rows && pixelColumns === columns) return { rows, columns, values };
  const out = new Float32Array(pixelRows * pixelColumns);
  const pixelOfColumn = Int32Array.from({ length: columns }, (_, i) => (
    Math.min(pixelColumns - 1, Math.floor(((i + 0.5) * pixelColumns) / columns))));
  for (let i = 0; i < rows; i++) {
    const to = Math.min(pixelRows - 1, Math.floor(((i + 0.5) * pixelRows) / rows)) * pixelColumns;
    poolRow(values.subarray(i * columns, (i + 1) * columns), pixelOfColumn,
      out.subarray(to, to + pixelColumns));
  }
  return { rows: pixelRows, columns: pixelColumns, values: out };
}

// Keeps the value with the largest absolute value in each pixel.
function poolRow(row: Float32Array, pixelOfColumn: Int32Array, out: Float32Array): void {
  for (let j = 0; j < row.length; j++) {
    const value = row[j];
    const current = out[pixelOfColumn[j]];
    if (value > current ? value > -current : value < -current) out[pixelOfColumn[j]] = value;
  }
}

// Caches the pixels and colors of a matrix, so that the same matrix is painted only once.
interface CachedPixels {
  size: string;
  pixels: PooledMatrix;
  largest: number; // largest absolute value of all cells
  colorKey: string;
  colors: Float32Array;
}

const pixelCache = new WeakMap<Float32Array, CachedPixels>();

function cachedPixels(panel: HeatmapPanel): CachedPixels {
  const { values, rows, columns } = panel;
  const { w, h } = cellsRect(panel);
  const [pixelRows, pixelColumns] = [Math.max(1, Math.floor(h)), Math.max(1, Math.floor(w))];
  const size = `${pixelRows} ${pixelColumns}`;
  const cached = pixelCache.get(values);
  if (cached?.size === size) return cached;
  const pixels = poolMatrix(values, rows.length, columns.length, pixelRows, pixelColumns);
  const created = { size, pixels, largest: maxAbs(pixels.values), colorKey: '',
    colors: pixels.values };
  pixelCache.set(values, created);
  return created;
}

function cachedColors(panel: HeatmapPanel): PooledMatrix {
  const cached = cachedPixels(panel);
  const colorKey = `${panel.fullColorValue} ${panel.scale}`;
  if (cached.colorKey !== colorKey) {
    cached.colors = colorStrengths(cached.pixels.values, panel.fullColorValue, panel.scale);
    cached.colorKey = colorKey;
  }
  return { ...cached.pixels, values: cached.colors };
}

// The largest absolute value in all cells of these panels.
export const largestValue = (...panels: HeatmapPanel[]): number => (
  Math.max(0, ...panels.map((panel) => cachedPixels(panel).largest)));

// A note about pooled pixels, or an empty string.
export function describePooling(panel: HeatmapPanel): string {
  const isPooled = panel.rows.length > cellsRect(panel).h
    || panel.columns.length > cellsRect(panel).w;
  return isPooled ? 'Each pixel of a map shows its largest weight.' : '';
}

export function panelMarks(panel: HeatmapPanel): Mark[] {
  const { x, y, w, h } = cellsRect(panel);
  const { rows, columns, signed } = panel;
  return [
    textMark(panel.x, panel.y + 14, panel.title, 13, { bold: true, limit: panel.w }),
    { kind: 'raster', x, y, w, h, ...cachedColors(panel), signed },
    rectMark(x, y, w, h, { stroke: 'rule' }),
    ...edgeLabels(rows, h, (text, offset) => (
      textMark(x - 4, y + offset + 4, text, FONT,
        { anchor: 'end', fill: 'dim', limit: x - panel.x - 6 }))),
    ...edgeLabels(columns, w, (text, offset) => (
      textMark(x + offset + 4, y - 4, text, FONT,
        { rotate: -90, fill: 'dim', limit: y - panel.y - TITLE_HEIGHT - 6 }))),
    ...legendMarks(x, y + h + 8, Math.min(w, 160), panel),
  ];
}

// Labels of every token, or of every n-th if they are too close.
function edgeLabels(
  items: Item[], length: number, mark: (text: string, offset: number) => Mark,
): Mark[] {
  const step = length / Math.max(1, items.length);
  const labelStep = Math.max(1, Math.ceil(LABEL_DISTANCE / Math.max(step, 1e-6)));
  return items.flatMap((item, i) => (
    i % labelStep === 0 ? [mark(short(item.text, 14), (i + 0.5) * step)] : []));
}

const RAMP_VALUES = Float32Array.from({ length: 64 }, (_, i) => i / 63);
const SIGNED_RAMP_VALUES = RAMP_VALUES.map((value) => value * 2 - 1);
const SCALE_NAMES = { linear: '', sqrt: 'square root', log: 'logarithmic' };

function legendMarks(x: number, y: number, width: number, panel: HeatmapPanel): Mark[] {
  const { signed, fullColorValue, scale } = panel;
  const w = Math.max(90, width);
  const values = signed ? SIGNED_RAMP_VALUES : RAMP_VALUES;
  const style = { fill: 'dim' };
  return [
    { kind: 'raster', x, y, w, h: 7, rows: 1, columns: values.length, values, signed },
    rectMark(x, y, w, 7, { stroke: 'rule' }),
    textMark(x, y + 19, signed ? number(-fullColorValue, 3) : '0', FONT, style),
    textMark(x + w, y + 19, number(fullColorValue, 3), FONT, { ...style, anchor: 'end' }),
    ...(signed && w >= 140
      ? [textMark(x + w / 2, y + 19, '0', FONT, { ...style, anchor: 'middle' })] : []),
    ...(scale === 'linear' ? [] : [textMark(x + w + 8, y + 8, SCALE_NAMES[scale], FONT, style)]),
  ];
}

// Row and column under the pointer.
export function cellAt(panel: HeatmapPanel, x: number, y: number): [number, number] | null {
  const cells = cellsRect(panel);
  const row = Math.floor(((y - cells.y) / cells.h) * panel.rows.length);
  const column = Math.floor(((x - cells.x) / cells.w) * panel.columns.length);
  const isInside = (index: number, items: Item[]): boolean => index >= 0 && index < items.length;
  return isInside(row, panel.rows) && isInside(column, panel.columns) ? [row, column] : null;
}

export function cellRect(panel: HeatmapPanel, row: number, column: number): Rect {
  const { x, y, w, h } = cellsRect(panel);
  const [cellWidth, cellHeight] = [w / panel.columns.length, h / panel.rows.length];
  return { x: x + column * cellWidth, y: y + row * cellHeight, w: cellWidth, h: cellHeight };
}

export function crosshair(panel: HeatmapPanel, row: number, column: number): Mark[] {
  const cells = cellsRect(panel);
  const { x, y, w, h } = cellRect(panel, row, column);
  const [middle, center] = [y + h / 2, x + w / 2];
  return [
    lineMark(cells.x, middle, x, middle, 'accent'), lineMark(center, cells.y, center, y, 'accent'),
    rectMark(x - 1, y - 1, Math.max(3, w + 2), Math.max(3, h + 2), { stroke: 'ink' }),
    rectMark(x - 2, y - 2, Math.max(5, w + 4), Math.max(5, h + 4), { stroke: 'accent' }),
  ];
}
