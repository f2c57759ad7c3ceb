// All heads of a side as a grid, layers down and heads across, each colored by a number of 0 to 1.

import type { Opened } from '../capture';
import type { Side } from '../format';
import { headName, layerName } from '../names';
import { number } from '../../shared/text';
import type { Mark, Target } from '../view';
import { likeness, type Ranking } from './change';
import { sideName } from './naming';
import { halfName, labelOf, type Half, type Pair } from './pairing';
import type { Place } from './panel';
import { box, layerTitle, words } from './parts';

export interface HeadGrid {
  y: number;
  height: number;
  marks: Mark[];
  targets: Target[];
}

interface Asked {
  // how much each head changed, or how far each head of the other side is from ours
  kind: 'change' | 'like';
  opened: Opened;
  pair: Pair;
  ranked: Ranking;
  x: number;
  y: number;
  w: number;
}

interface Grid {
  half: Half;
  numbers: number[][];
  columns: number;
  x: number;
  y: number;
  wide: number;
  high: number;
}

const TITLE = 38;
const HEADS = 16; // room for numbers of heads
const CELL = { wide: 30, low: 14, high: 22 };

export function headGrid(asked: Asked): HeadGrid {
  const { kind, y } = asked;
  const grid = gridOf(asked);
  const targets = grid.numbers.flatMap((row, layer) => row.map((value, head) => (
    { ...cellOf(grid, layer, head),
      ...targetOf(kind, grid.half, asked.pair, layer, head, value) })));
  return {
    y, height: TITLE + HEADS + grid.numbers.length * grid.high, targets,
    marks: [...heading(asked), ...cells(grid, kind), ...names(grid), ...chosen(grid)],
  };
}

function gridOf({ kind, opened, pair, ranked, x, y, w }: Asked): Grid {
  const { left, right } = pair;
  const half = kind === 'change' ? left : right;
  const numbers = kind === 'change' ? changesOf(left.side, ranked)
    : likeness(opened, left.index, left.layer, left.heads[0]);
  const columns = Math.max(1, ...numbers.map((row) => row.length));
  const room = namesRoom(half.side);
  const wide = Math.min(CELL.wide, (w - room) / columns);
  const high = Math.max(CELL.low, Math.min(CELL.high, wide));
  return { half, numbers, columns, wide, high, x: x + room, y: y + TITLE + HEADS };
}

// Pixels for the names of layers.
function namesRoom(side: Side): number {
  return 14 + 6.4 * Math.max(1, ...side.layers.map((_, layer) => layerName(side, layer).length));
}

const cellOf = ({ x, y, wide, high }: Grid, layer: number, head: number): Place => (
  { x: x + head * wide, y: y + layer * high, w: wide, h: high });

function heading({ kind, pair, x, y, w }: Asked): Mark[] {
  const [half, detail] = kind === 'change'
    ? [pair.left, 'the stronger, the more it changed; click to show it']
    : [pair.right, `the stronger, the more like ${
      halfName(pair.left)} (by small maps); click to show beside`];
  return [
    words(x, y + 13, `Heads of ${sideName(half.side)}`, 13, { bold: true, limit: w }),
    words(x, y + 29, detail, 11, { fill: 'dim', limit: w }),
  ];
}

function cells({ numbers, columns, x, y, wide, high }: Grid, kind: Asked['kind']): Mark[] {
  const rows = numbers.length;
  const values = new Float32Array(rows * columns).fill(NaN);
  // change up to the largest; likeness is what is left of the distance
  const most = Math.max(1e-9, ...numbers.flat());
  numbers.forEach((row, layer) => values.set(
    row.map((value) => (kind === 'change' ? value / most : 1 - value)), layer * columns));
  const place = { x, y, w: wide * columns, h: high * rows };
  return [
    { kind: 'raster', ...place, rows, columns, values, signed: false },
    box(place.x, place.y, place.w, place.h, { stroke: 'rule' }),
  ];
}

function names({ half, numbers, columns, x, y, wide, high }: Grid): Mark[] {
  const every = Math.max(1, Math.ceil(16 / wide));
  const limit = namesRoom(half.side);
  const heads = Array.from({ length: Math.ceil(columns / every) }, (_, i) => i * every);
  return [
    ...numbers.map((_, layer) => words(x - 6, y + (layer + 0.5) * high + 4,
      layerName(half.side, layer), 11, { anchor: 'end', fill: 'dim', limit })),
    ...heads.map((head) => words(x + (head + 0.5) * wide, y - 4, columnName(half.side, head), 10,
      { anchor: 'middle', fill: 'dim' })),
  ];
}

// Layers may keep different heads; then places are numbered.
function columnName(side: Side, head: number): string {
  const all = new Set(side.layers.filter((layer) => head < layer.heads.length)
    .map((layer) => headName(layer, head)));
  return all.size === 1 ? [...all][0] : `${head}`;
}

// Two frames, so that one of them is seen on any color.
function chosen(grid: Grid): Mark[] {
  const { heads, layer, side } = grid.half;
  if (heads.length === side.layers[layer].heads.length) return [];
  return heads.flatMap((head) => {
    const { x, y, w, h } = cellOf(grid, layer, head);
    return [box(x, y, w, h, { stroke: 'page' }), ...[1, 2].map((out) => (
      box(x - out, y - out, w + 2 * out, h + 2 * out, { stroke: 'accent' })))];
  });
}

function changesOf(side: Side, ranked: Ranking): number[][] {
  const rows = side.layers.map((layer) => layer.heads.map(() => NaN));
  for (const each of ranked.changes) rows[each.layer][each.head] = each.change;
  return rows;
}

function targetOf(
  kind: Asked['kind'], { side }: Half, { left }: Pair, layer: number, head: number, value: number,
): Omit<Target, 'x' | 'y' | 'w' | 'h'> {
  const name = `${layerTitle(side, layer)}, head ${headName(side.layers[layer], head)} of ${
    sideName(side)}`;
  const what = kind === 'change' ? 'change'
    : `distance from ${halfName(left)} of ${sideName(left.side)}`;
  const said = `${what} ${number(value, 3)}`;
  return {
    label: `${name}: ${said}`,
    key: `compare/${kind}/${layer}/${head}`,
    pick: kind === 'change' ? { layer, heads: [head], mean: false, against: null }
      : { against: [layer, head] },
    tip: () => [name, said, labelOf(side, layer, head)],
  };
}
