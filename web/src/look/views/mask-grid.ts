// Cells of a mask: filled where a query may look, a dash where it may not, a cross for padding.

import type { Token } from '../format';
import { short } from '../../shared/text';
import type { Frame, Mark } from '../view';
import { permission, type MaskFacts } from './masks';
import { box, line, lines, words, type Piece } from './parts';

const PAD = 12;
const READABLE = 11; // pixels of a row that has room for a token
const LARGEST = 36; // pixels of a cell
const SIGNED = 9; // pixels of a cell that has room for a sign
const MANY = 6000; // cells that have signs of their own, at most
const FEW = 75; // rows that are worth scrolling for, so that each has its token
const LOWEST = 480; // pixels of a mask with more rows
const FONT = 11;
const ALLOWED = 0.78; // of the ramp: dark, but not as dark as can be
const HATCH = 8; // pixels between the stripes of padding

type Span = [number, number]; // first and last

export interface Grid {
  x: number;
  y: number;
  above: number; // room for the names of keys
  cell: number;
  queries: Span; // that are shown
  keys: Span;
}

export interface GridRequest {
  queries: Token[];
  keys: Token[];
  zoom: [number, number, number, number] | null;
  top: number;
  width: number;
  height: number;
  measure: Frame['measure'];
}

// Square cells, all of them in sight where that leaves them large enough.
export function gridOf(request: GridRequest): Grid {
  const { queries, keys, zoom, top, width, height, measure } = request;
  const rows = spanOf(zoom?.[0], zoom?.[1], queries.length);
  const columns = spanOf(zoom?.[2], zoom?.[3], keys.length);
  const least = lengthOf(rows) <= FEW ? READABLE : LOWEST / lengthOf(rows);
  const fitted = (extra: number): Grid => {
    const left = Math.ceil(Math.min(width * 0.25, labelRoom(queries, measure) + extra));
    const above = Math.ceil(Math.min(120, height * 0.25, labelRoom(keys, measure) + extra));
    const down = (height - top - above - PAD) / lengthOf(rows);
    const across = (width - 2 * PAD - left) / lengthOf(columns);
    const free = Math.min(LARGEST, across, Math.max(down, least));
    const cell = free > READABLE ? Math.floor(free) : free; // large ones are sharp
    return { x: PAD + left, y: top + above, above, cell, queries: rows, keys: columns };
  };
  const grid = fitted(0);
  const numbers = measure('000 ', FONT, true); // stand beside tokens where not each has its name
  return grid.cell >= READABLE ? grid : fitted(numbers);
}

function spanOf(first: number | undefined, last: number | undefined, length: number): Span {
  const to = Math.min(last ?? length - 1, length - 1);
  return [Math.max(0, Math.min(first ?? 0, to)), to];
}

const lengthOf = ([first, last]: Span): number => last - first + 1;

function labelRoom(tokens: Token[], measure: Frame['measure']): number {
  const widest = tokens.slice(0, 500).reduce((most, { text }) => (
    Math.max(most, measure(short(text, 14), FONT, true))), 16);
  return widest + 12;
}

export function inside({ queries, keys }: Grid, query: number, key: number): boolean {
  return query >= queries[0] && query <= queries[1] && key >= keys[0] && key <= keys[1];
}

// Kept while mask and part stay the same, so that it is painted once.
const colored = new WeakMap<MaskFacts, { part: string; values: Float32Array }>();

function colors(values: Float32Array | null, facts: MaskFacts, grid: Grid): Float32Array {
  const { queries, keys } = grid;
  const part = `${queries} ${keys}`;
  const known = colored.get(facts);
  if (known?.part === part) return known.values;
  const columns = lengthOf(keys);
  const fresh = new Float32Array(lengthOf(queries) * columns);
  for (let query = queries[0]; query <= queries[1]; query++) {
    const [from, to] = [query * facts.keys, (query - queries[0]) * columns - keys[0]];
    for (let key = keys[0]; key <= keys[1]; key++) {
      if (values === null || values[from + key] > 0) fresh[to + key] = ALLOWED;
    }
  }
  colored.set(facts, { part, values: fresh });
  return fresh;
}

export function cellMarks(values: Float32Array | null, facts: MaskFacts, grid: Grid): Mark[] {
  const { x, y, cell } = grid;
  const [rows, columns] = [lengthOf(grid.queries), lengthOf(grid.keys)];
  const [w, h] = [columns * cell, rows * cell];
  const signed = cell >= SIGNED && rows * columns <= MANY;
  const shown = colors(values, facts, grid);
  return [
    { kind: 'raster', x, y, w, h, rows, columns, values: shown, signed: false },
    ...(signed ? [net(grid, w, h), ...signs(values, facts, grid)] : stripes(facts, grid, h)),
    box(x, y, w, h, { stroke: 'dim' }),
  ];
}

function net({ x, y, cell }: Grid, w: number, h: number): Mark {
  const points: number[] = [];
  const sharp = (place: number): number => Math.floor(place) + 0.5;
  for (let at = cell; at < h - 0.5; at += cell) points.push(x, sharp(y + at), x + w, sharp(y + at));
  for (let at = cell; at < w - 0.5; at += cell) points.push(sharp(x + at), y, sharp(x + at), y + h);
  return lines(points, 'rule');
}

function signs(values: Float32Array | null, facts: MaskFacts, grid: Grid): Mark[] {
  const { x, y, cell, queries, keys } = grid;
  const [dashes, crosses]: [number[], number[]] = [[], []];
  for (let query = queries[0]; query <= queries[1]; query++) {
    for (let key = keys[0]; key <= keys[1]; key++) {
      const may = permission(values, facts, query, key);
      if (may === 'allowed') continue;
      const center = x + (key - keys[0] + 0.5) * cell;
      const middle = y + (query - queries[0] + 0.5) * cell;
      if (may === 'padding') crosses.push(...cross(center, middle, cell * 0.25));
      else dashes.push(center - cell * 0.12, middle, center + cell * 0.12, middle);
    }
  }
  return [lines(dashes, 'dim'), lines(crosses, 'warn')];
}

const cross = (x: number, y: number, half: number): number[] => [
  x - half, y - half, x + half, y + half, x - half, y + half, x + half, y - half];

// Where cells are too small for signs: padding that stands together is striped.
function stripes({ padding }: MaskFacts, { x, y, cell, keys }: Grid, h: number): Mark[] {
  const points: number[] = [];
  for (let key = keys[0]; key <= keys[1]; key++) {
    if (!padding[key]) continue;
    const left = x + (key - keys[0]) * cell;
    while (key < keys[1] && padding[key + 1]) key++;
    const w = x + (key + 1 - keys[0]) * cell - left;
    points.push(left, y, left, y + h, left + w, y, left + w, y + h);
    for (let at = HATCH; at < h + w; at += HATCH) { // rising to the right, cut at the ends
      const [from, to] = [Math.max(0, at - h), Math.min(w, at)];
      points.push(left + from, y + at - from, left + to, y + at - to);
    }
  }
  return points.length > 0 ? [lines(points, 'warn', 0.8)] : [];
}

// Rows from one that has its token's name to the next.
export const rowsApart = ({ cell }: Grid): number => Math.max(1, Math.ceil(READABLE / cell));

// Every token along the edges, or every n-th with its number where they are too close.
export function edges(
  queries: Token[], keys: Token[], grid: Grid, query: number | undefined, key: number | null,
): Mark[] {
  const { x, y, cell } = grid;
  const every = rowsApart(grid);
  const shown = (tokens: Token[], [first, last]: Span): number[] => (
    [...tokens.keys()].slice(first, last + 1).filter((i) => (i - first) % every === 0));
  const named = (tokens: Token[], i: number): string => (
    every > 1 ? `${i} ${short(tokens[i].text, 10)}` : short(tokens[i].text, 14));
  const look = (chosen: boolean) => ({ mono: true, fill: chosen ? 'accent' : 'dim', bold: chosen });
  return [
    ...shown(queries, grid.queries).map((i) => (
      words(x - 5, y + (i - grid.queries[0] + 0.5) * cell + 4, named(queries, i), FONT, {
        anchor: 'end', limit: x - PAD - 6, ...look(i === query) }))),
    ...shown(keys, grid.keys).map((i) => (
      words(x + (i - grid.keys[0] + 0.5) * cell + 4, y - 5, named(keys, i), FONT, {
        rotate: -90, limit: grid.above - 8, ...look(i === key) }))),
  ];
}

// Two lines around the cell, so that one of them is seen on any ground.
export function crosshair(grid: Grid, query: number, key: number): Mark[] {
  const { x, y, cell, queries, keys } = grid;
  const [left, top] = [x + (key - keys[0]) * cell, y + (query - queries[0]) * cell];
  const [center, middle] = [left + cell / 2, top + cell / 2];
  const around = (out: number, stroke: string): Mark => (
    box(left - out, top - out, cell + 2 * out, cell + 2 * out, { stroke }));
  return [
    line(x - 4, middle, x, middle, 'accent', { width: 2 }),
    line(center, y - 4, center, y, 'accent', { width: 2 }),
    around(1, 'page'), around(2, 'accent'), around(3, 'accent'), around(4, 'page'),
  ];
}

export function legend(
  facts: MaskFacts, left: number, top: number, width: number, measure: Frame['measure'],
): Piece {
  const marks: Mark[] = [];
  let [x, y] = [left, top];
  const entry = (text: string, share: number, stroke: string, points: number[]): void => {
    const w = 20 + measure(text, 12) + 18;
    if (x > left && x + w > left + width) [x, y] = [left, y + 20];
    const values = Float32Array.of(share);
    marks.push(
      { kind: 'raster', x, y, w: 14, h: 14, rows: 1, columns: 1, values, signed: false },
      box(x, y, 14, 14, { stroke: 'dim' }), words(x + 20, y + 11, text, 12),
      lines(points.map((at, i) => at + (i % 2 === 0 ? x : y)), stroke));
    x += w;
  };
  entry('may look', ALLOWED, 'dim', []);
  if (facts.allowed < facts.queries * facts.keys) entry('may not look', 0, 'dim', [5, 7, 9, 7]);
  if (facts.hidden > 0) entry('padding: no query may look', 0, 'warn', cross(7, 7, 3.5));
  return { marks, height: y + 20 - top };
}
