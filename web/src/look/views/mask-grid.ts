// The cells of a mask: filled if a query may attend, a dash if it may not, a cross for padding.

import type { Token } from '../capture-format';
import { short } from '../../shared/readable-text';
import type { Frame, Mark } from '../view';
import { permission, type MaskFacts } from './mask-facts';
import { rectMark, lineMark, linesMark, textMark, type MarkBlock } from './marks';

const PADDING = 12;
const READABLE_PIXELS = 11; // smallest row with a token, in pixels
const MAX_CELL_PIXELS = 36; // largest cell, in pixels
const MIN_SIGN_PIXELS = 9; // smallest cell with a sign, in pixels
const MAX_SIGNS = 6000; // largest number of cells with signs
const MAX_SCROLLED_ROWS = 75; // up to this many rows, each row has its token, even if the page must scroll
const TALL_MASK_HEIGHT = 480; // height of a mask with more rows, in pixels
const FONT_SIZE = 11;
const ALLOWED_COLOR = 0.78; // color of allowed cells on the ramp
const STRIPE_DISTANCE = 8; // pixels between the stripes of padding

type Span = [number, number]; // first and last

export interface MaskGrid {
  x: number;
  y: number;
  labelHeight: number; // height of the key labels
  cellSize: number;
  queries: Span; // visible ones
  keys: Span;
}

export interface MaskGridOptions {
  queries: Token[];
  keys: Token[];
  zoom: [number, number, number, number] | null;
  top: number;
  width: number;
  height: number;
  measure: Frame['measure'];
}

// Square cells; all of them are visible if that leaves them large enough.
export function layOutMask(options: MaskGridOptions): MaskGrid {
  const { queries, keys, zoom, top, width, height, measure } = options;
  const rows = visibleSpan(zoom?.[0], zoom?.[1], queries.length);
  const columns = visibleSpan(zoom?.[2], zoom?.[3], keys.length);
  const minCell = lengthOf(rows) <= MAX_SCROLLED_ROWS ? READABLE_PIXELS
    : TALL_MASK_HEIGHT / lengthOf(rows);
  const fit = (labelExtra: number): MaskGrid => {
    const labelWidth = Math.ceil(Math.min(width * 0.25, labelSpace(queries, measure) + labelExtra));
    const labelHeight = Math.ceil(Math.min(120, height * 0.25,
      labelSpace(keys, measure) + labelExtra));
    const down = (height - top - labelHeight - PADDING) / lengthOf(rows);
    const across = (width - 2 * PADDING - labelWidth) / lengthOf(columns);
    const size = Math.min(MAX_CELL_PIXELS, across, Math.max(down, minCell));
    const cellSize = size > READABLE_PIXELS ? Math.floor(size) : size; // whole pixels are sharp
    return { x: PADDING + labelWidth, y: top + labelHeight, labelHeight, cellSize, queries: rows,
      keys: columns };
  };
  const grid = fit(0);
  const numbersWidth = measure('000 ', FONT_SIZE,
    true); // positions, shown if not every token has a label
  return grid.cellSize >= READABLE_PIXELS ? grid : fit(numbersWidth);
}

function visibleSpan(first: number | undefined, last: number | undefined, length: number): Span {
  const lastIndex = Math.min(last ?? length - 1, length - 1);
  return [Math.max(0, Math.min(first ?? 0, lastIndex)), lastIndex];
}

const lengthOf = ([first, last]: Span): number => last - first + 1;

function labelSpace(tokens: Token[], measure: Frame['measure']): number {
  const widest = tokens.slice(0, 500).reduce((most, { text }) => (
    Math.max(most, measure(short(text, 14), FONT_SIZE, true))), 16);
  return widest + 12;
}

export function isVisible({ queries, keys }: MaskGrid, query: number, key: number): boolean {
  return query >= queries[0] && query <= queries[1] && key >= keys[0] && key <= keys[1];
}

// Caches the colors, so that the same part of a mask is painted only once.
const colorCache = new WeakMap<MaskFacts, { partKey: string; values: Float32Array }>();

function maskColors(values: Float32Array | null, facts: MaskFacts, grid: MaskGrid): Float32Array {
  const { queries, keys } = grid;
  const partKey = `${queries} ${keys}`;
  const cached = colorCache.get(facts);
  if (cached?.partKey === partKey) return cached.values;
  const columns = lengthOf(keys);
  const created = new Float32Array(lengthOf(queries) * columns);
  for (let query = queries[0]; query <= queries[1]; query++) {
    const [from, to] = [query * facts.keys, (query - queries[0]) * columns - keys[0]];
    for (let key = keys[0]; key <= keys[1]; key++) {
      if (values === null || values[from + key] > 0) created[to + key] = ALLOWED_COLOR;
    }
  }
  colorCache.set(facts, { partKey, values: created });
  return created;
}

export function cellMarks(values: Float32Array | null, facts: MaskFacts, grid: MaskGrid): Mark[] {
  const { x, y, cellSize } = grid;
  const [rows, columns] = [lengthOf(grid.queries), lengthOf(grid.keys)];
  const [w, h] = [columns * cellSize, rows * cellSize];
  const hasSigns = cellSize >= MIN_SIGN_PIXELS && rows * columns <= MAX_SIGNS;
  const colors = maskColors(values, facts, grid);
  return [
    { kind: 'raster', x, y, w, h, rows, columns, values: colors, signed: false },
    ...(hasSigns ? [gridLines(grid, w, h), ...signMarks(values, facts, grid)]
      : paddingStripes(facts, grid, h)),
    rectMark(x, y, w, h, { stroke: 'dim' }),
  ];
}

function gridLines({ x, y, cellSize }: MaskGrid, w: number, h: number): Mark {
  const points: number[] = [];
  const toPixelCenter = (coordinate: number): number => Math.floor(coordinate) + 0.5;
  for (let at = cellSize; at < h - 0.5; at += cellSize) points.push(x, toPixelCenter(y + at),
    x + w, toPixelCenter(y + at));
  for (let at = cellSize; at < w - 0.5; at += cellSize) points.push(toPixelCenter(x + at), y,
    toPixelCenter(x + at), y + h);
  return linesMark(points, 'rule');
}

function signMarks(values: Float32Array | null, facts: MaskFacts, grid: MaskGrid): Mark[] {
  const { x, y, cellSize, queries, keys } = grid;
  const [dashes, crosses]: [number[], number[]] = [[], []];
  for (let query = queries[0]; query <= queries[1]; query++) {
    for (let key = keys[0]; key <= keys[1]; key++) {
      const state = permission(values, facts, query, key);
      if (state === 'allowed') continue;
      const center = x + (key - keys[0] + 0.5) * cellSize;
      const middle = y + (query - queries[0] + 0.5) * cellSize;
      if (state === 'padding') crosses.push(...crossPoints(center, middle,
        cellSize * 0.25));
      else dashes.push(center - cellSize * 0.12, middle, center + cellSize * 0.12, middle);
    }
  }
  return [linesMark(dashes, 'dim'), linesMark(crosses, 'warn')];
}

const crossPoints = (x: number, y: number, half: number): number[] => [
  x - half, y - half, x + half, y + half, x - half, y + half, x + half, y - half];

// Stripes over padding keys, for cells that are too small for signs.
function paddingStripes({ padding }: MaskFacts, { x, y, cellSize, keys }: MaskGrid,
  h: number): Mark[] {
  const points: number[] = [];
  for (let key = keys[0]; key <= keys[1]; key++) {
    if (!padding[key]) continue;
    const left = x + (key - keys[0]) * cellSize;
    while (key < keys[1] && padding[key + 1]) key++;
    const w = x + (key + 1 - keys[0]) * cellSize - left;
    points.push(left, y, left, y + h, left + w, y, left + w, y + h);
    for (let at = STRIPE_DISTANCE; at < h + w; at += STRIPE_DISTANCE) { // rising to the right, clipped to the area
      const [from, to] = [Math.max(0, at - h), Math.min(w, at)];
      points.push(left + from, y + at - from, left + to, y + at - to);
    }
  }
  return points.length > 0 ? [linesMark(points, 'warn', 0.8)] : [];
}

// Number of rows from one labeled row to the next.
export const labelStep = ({ cellSize }: MaskGrid): number => Math.max(1,
  Math.ceil(READABLE_PIXELS / cellSize));

// Labels along the edges: every token, or every n-th with its position if they are too close.
export function edgeLabels(
  queries: Token[], keys: Token[], grid: MaskGrid, query: number | undefined, key: number | null,
): Mark[] {
  const { x, y, cellSize } = grid;
  const step = labelStep(grid);
  const labeled = (tokens: Token[], [first, last]: Span): number[] => (
    [...tokens.keys()].slice(first, last + 1).filter((i) => (i - first) % step === 0));
  const labelText = (tokens: Token[], i: number): string => (
    step > 1 ? `${i} ${short(tokens[i].text, 10)}` : short(tokens[i].text, 14));
  const labelStyle = (selected: boolean) => ({ mono: true, fill: selected ? 'accent' : 'dim',
    bold: selected });
  return [
    ...labeled(queries, grid.queries).map((i) => (
      textMark(x - 5, y + (i - grid.queries[0] + 0.5) * cellSize + 4, labelText(queries, i),
        FONT_SIZE, {
        anchor: 'end', limit: x - PADDING - 6, ...labelStyle(i === query) }))),
    ...labeled(keys, grid.keys).map((i) => (
      textMark(x + (i - grid.keys[0] + 0.5) * cellSize + 4, y - 5, labelText(keys, i), FONT_SIZE, {
        rotate: -90, limit: grid.labelHeight - 8, ...labelStyle(i === key) }))),
  ];
}

// Frames in two colors around the cell, so that one is visible on any background.
export function crosshair(grid: MaskGrid, query: number, key: number): Mark[] {
  const { x, y, cellSize, queries, keys } = grid;
  const [left, top] = [x + (key - keys[0]) * cellSize, y + (query - queries[0]) * cellSize];
  const [center, middle] = [left + cellSize / 2, top + cellSize / 2];
  const frame = (out: number, stroke: string): Mark => (
    rectMark(left - out, top - out, cellSize + 2 * out, cellSize + 2 * out, { stroke }));
  return [
    lineMark(x - 4, middle, x, middle, 'accent', { width: 2 }),
    lineMark(center, y - 4, center, y, 'accent', { width: 2 }),
    frame(1, 'page'), frame(2, 'accent'), frame(3, 'accent'), frame(4, 'page'),
  ];
}

export function legendMarks(
  facts: MaskFacts, left: number, top: number, width: number, measure: Frame['measure'],
): MarkBlock {
  const marks: Mark[] = [];
  let [x, y] = [left, top];
  const addEntry = (text: string, value: number, stroke: string, points: number[]): void => {
    const w = 20 + measure(text, 12) + 18;
    if (x > left && x + w > left + width) [x, y] = [left, y + 20];
    const values = Float32Array.of(value);
    marks.push(
      { kind: 'raster', x, y, w: 14, h: 14, rows: 1, columns: 1, values, signed: false },
      rectMark(x, y, 14, 14, { stroke: 'dim' }), textMark(x + 20, y + 11, text, 12),
      linesMark(points.map((coordinate, i) => coordinate + (i % 2 === 0 ? x : y)), stroke));
    x += w;
  };
  addEntry('allowed', ALLOWED_COLOR, 'dim', []);
  if (facts.allowed < facts.queries * facts.keys) addEntry('masked', 0, 'dim', [5, 7, 9, 7]);
  if (facts.paddingCount > 0) addEntry('padding: masked for every query', 0, 'warn',
    crossPoints(7, 7, 3.5));
  return { marks, height: y + 20 - top };
}
