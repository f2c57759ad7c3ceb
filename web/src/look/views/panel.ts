// A heatmap with its tokens along the edges, as many as fit; several of them stand side by side.

import type { Choices } from '../choices';
import { largest, shades, type Item } from '../prepare';
import { number, short } from '../../shared/text';
import type { Frame, Mark } from '../view';
import { box, line, words } from './parts';

export interface Panel {
  title: string;
  x: number; // of all, tokens included
  y: number;
  w: number; // at most
  h: number; // at most, where cells stay large enough
  measure: Frame['measure'];
  rows: Item[];
  columns: Item[];
  values: Float32Array; // (rows, columns)
  most: number; // the value that is shown in full
  signed: boolean;
  scale: Choices['scale'];
}

export interface Place {
  x: number;
  y: number;
  w: number;
  h: number;
}

const TITLE = 22;
const LEGEND = 34;
const READABLE = 12; // pixels between two tokens
const LARGEST = 56; // pixels of a cell
const LEAST = 260; // pixels of all cells, however low the window is
const FONT = 11;

// Where the cells are: found once for each panel.
const placed = new WeakMap<Panel, Place>();

export function cellsOf(panel: Panel): Place {
  const known = placed.get(panel);
  if (known) return known;
  const { x, y, w, h, rows, columns } = panel;
  const [left, above] = [labelRoom(panel, rows), labelRoom(panel, columns)];
  const most = Math.max(1, rows.length, columns.length);
  const tall = Math.max(h - TITLE - above - LEGEND, LEAST) / most;
  const cell = Math.min(LARGEST, (w - left) / most, tall);
  const fresh = {
    x: x + left, y: y + TITLE + above, w: cell * columns.length, h: cell * rows.length };
  placed.set(panel, fresh);
  return fresh;
}

function labelRoom({ w, measure }: Panel, items: Item[]): number {
  const most = Math.min(84, Math.floor(w * 0.24));
  let wide = 20;
  for (const item of items) {
    if (wide >= most) break;
    wide = Math.max(wide, measure(short(item.text, 14), FONT) + 8);
  }
  return Math.min(most, Math.ceil(wide));
}

export function panelHeight(panel: Panel): number {
  const cells = cellsOf(panel);
  return cells.y - panel.y + cells.h + LEGEND;
}

export interface Pooled {
  rows: number;
  columns: number;
  values: Float32Array;
}

// Where a cell has less than a pixel, a pixel shows the largest of its cells: a line of single
// cells would be lost in their mean.
export function pooled(
  values: Float32Array, rows: number, columns: number, toRows: number, toColumns: number,
): Pooled {
  const [high, wide] = [Math.min(rows, toRows), Math.min(columns, toColumns)];
  if (high === rows && wide === columns) return { rows, columns, values };
  const out = new Float32Array(high * wide);
  const place = Int32Array.from({ length: columns }, (_, i) => (
    Math.min(wide - 1, Math.floor(((i + 0.5) * wide) / columns))));
  for (let i = 0; i < rows; i++) {
    const to = Math.min(high - 1, Math.floor(((i + 0.5) * high) / rows)) * wide;
    poolRow(values.subarray(i * columns, (i + 1) * columns), place, out.subarray(to, to + wide));
  }
  return { rows: high, columns: wide, values: out };
}

// What is larger than what is there, either way, takes its place.
function poolRow(row: Float32Array, place: Int32Array, out: Float32Array): void {
  for (let j = 0; j < row.length; j++) {
    const value = row[j];
    const most = out[place[j]];
    if (value > most ? value > -most : value < -most) out[place[j]] = value;
  }
}

// Pixels of a matrix and their colors are kept: the painter recognizes what it painted before.
interface Kept {
  size: string;
  pixels: Pooled;
  most: number; // of all cells: a pixel shows the largest of its own
  look: string;
  shades: Float32Array;
}

const kept = new WeakMap<Float32Array, Kept>();

function pixelsOf(panel: Panel): Kept {
  const { values, rows, columns } = panel;
  const { w, h } = cellsOf(panel);
  const [high, wide] = [Math.max(1, Math.floor(h)), Math.max(1, Math.floor(w))];
  const size = `${high} ${wide}`;
  const known = kept.get(values);
  if (known?.size === size) return known;
  const pixels = pooled(values, rows.length, columns.length, high, wide);
  const fresh = { size, pixels, most: largest(pixels.values), look: '', shades: pixels.values };
  kept.set(values, fresh);
  return fresh;
}

function shadesOf(panel: Panel): Pooled {
  const it = pixelsOf(panel);
  const look = `${panel.most} ${panel.scale}`;
  if (it.look !== look) {
    it.shades = shades(it.pixels.values, panel.most, panel.scale);
    it.look = look;
  }
  return { ...it.pixels, values: it.shades };
}

// The largest size in all cells of these.
export const largestOf = (...panels: Panel[]): number => (
  Math.max(0, ...panels.map((panel) => pixelsOf(panel).most)));

// What a person must know to read the colors, or nothing.
export function poolingSaid(panel: Panel): string {
  const all = panel.rows.length > cellsOf(panel).h || panel.columns.length > cellsOf(panel).w;
  return all ? 'A pixel of a map has the color of the largest weight in it.' : '';
}

export function panelMarks(panel: Panel): Mark[] {
  const { x, y, w, h } = cellsOf(panel);
  const { rows, columns, signed } = panel;
  return [
    words(panel.x, panel.y + 14, panel.title, 13, { bold: true, limit: panel.w }),
    { kind: 'raster', x, y, w, h, ...shadesOf(panel), signed },
    box(x, y, w, h, { stroke: 'rule' }),
    ...edge(rows, h, (text, place) => (
      words(x - 4, y + place + 4, text, FONT,
        { anchor: 'end', fill: 'dim', limit: x - panel.x - 6 }))),
    ...edge(columns, w, (text, place) => (
      words(x + place + 4, y - 4, text, FONT,
        { rotate: -90, fill: 'dim', limit: y - panel.y - TITLE - 6 }))),
    ...legend(x, y + h + 8, Math.min(w, 160), panel),
  ];
}

// Every token, or every n-th where they are too close.
function edge(
  items: Item[], length: number, mark: (text: string, place: number) => Mark,
): Mark[] {
  const step = length / Math.max(1, items.length);
  const every = Math.max(1, Math.ceil(READABLE / Math.max(step, 1e-6)));
  return items.flatMap((item, i) => (
    i % every === 0 ? [mark(short(item.text, 14), (i + 0.5) * step)] : []));
}

const RAMP = Float32Array.from({ length: 64 }, (_, i) => i / 63);
const SIGNED_RAMP = RAMP.map((value) => value * 2 - 1);
const SCALES = { linear: '', sqrt: 'square root', log: 'logarithmic' };

function legend(x: number, y: number, width: number, panel: Panel): Mark[] {
  const { signed, most, scale } = panel;
  const w = Math.max(90, width);
  const values = signed ? SIGNED_RAMP : RAMP;
  const look = { fill: 'dim' };
  return [
    { kind: 'raster', x, y, w, h: 7, rows: 1, columns: values.length, values, signed },
    box(x, y, w, 7, { stroke: 'rule' }),
    words(x, y + 19, signed ? number(-most, 3) : '0', FONT, look),
    words(x + w, y + 19, number(most, 3), FONT, { ...look, anchor: 'end' }),
    ...(signed && w >= 140
      ? [words(x + w / 2, y + 19, '0', FONT, { ...look, anchor: 'middle' })] : []),
    ...(scale === 'linear' ? [] : [words(x + w + 8, y + 8, SCALES[scale], FONT, look)]),
  ];
}

// Row and column under the pointer.
export function cellAt(panel: Panel, x: number, y: number): [number, number] | null {
  const cells = cellsOf(panel);
  const row = Math.floor(((y - cells.y) / cells.h) * panel.rows.length);
  const column = Math.floor(((x - cells.x) / cells.w) * panel.columns.length);
  const within = (place: number, all: Item[]): boolean => place >= 0 && place < all.length;
  return within(row, panel.rows) && within(column, panel.columns) ? [row, column] : null;
}

export function cellBox(panel: Panel, row: number, column: number): Place {
  const { x, y, w, h } = cellsOf(panel);
  const [wide, high] = [w / panel.columns.length, h / panel.rows.length];
  return { x: x + column * wide, y: y + row * high, w: wide, h: high };
}

export function crosshair(panel: Panel, row: number, column: number): Mark[] {
  const cells = cellsOf(panel);
  const { x, y, w, h } = cellBox(panel, row, column);
  const [middle, center] = [y + h / 2, x + w / 2];
  return [
    line(cells.x, middle, x, middle, 'accent'), line(center, cells.y, center, y, 'accent'),
    box(x - 1, y - 1, Math.max(3, w + 2), Math.max(3, h + 2), { stroke: 'ink' }),
    box(x - 2, y - 2, Math.max(5, w + 4), Math.max(5, h + 4), { stroke: 'accent' }),
  ];
}
