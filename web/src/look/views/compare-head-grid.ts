// All heads of a side as a grid, layers down and heads across, each colored by a number from 0 to 1.

import type { Capture } from '../capture';
import type { Side } from '../capture-format';
import { headName, layerName, sideName } from '../names';
import { number } from '../../shared/readable-text';
import type { Mark, Target } from '../view';
import { distancesToOtherHeads, type Ranking } from './head-change';
import { describeHeads, patternLabel, type ComparedSide, type ComparedPair } from './compare-data';
import type { Rect } from './heatmap-panel';
import { rectMark, layerTitle, textMark } from './marks';

export interface HeadGrid {
  y: number;
  height: number;
  marks: Mark[];
  targets: Target[];
}

interface HeadGridOptions {
  // change of each head, or similarity of each head of the other side to the selected head
  kind: 'change' | 'like';
  capture: Capture;
  pair: ComparedPair;
  ranking: Ranking;
  x: number;
  y: number;
  w: number;
}

interface GridLayout {
  half: ComparedSide;
  values: number[][];
  columns: number;
  x: number;
  y: number;
  cellWidth: number;
  cellHeight: number;
}

const TITLE_HEIGHT = 38;
const HEAD_NUMBERS_HEIGHT = 16; // pixels for the head numbers
const CELL_PIXELS = { maxWidth: 30, minHeight: 14, maxHeight: 22 };

export function headGrid(options: HeadGridOptions): HeadGrid {
  const { kind, y } = options;
  const grid = layOutGrid(options);
  const targets = grid.values.flatMap((row, layer) => row.map((value, head) => (
    { ...cellRect(grid, layer, head),
      ...headTarget(kind, grid.half, options.pair, layer, head, value) })));
  return {
    y, height: TITLE_HEIGHT + HEAD_NUMBERS_HEIGHT + grid.values.length * grid.cellHeight, targets,
    marks: [...heading(options), ...cellMarks(grid, kind), ...nameMarks(grid),
      ...selectionFrames(grid)],
  };
}

function layOutGrid({ kind, capture, pair, ranking, x, y, w }: HeadGridOptions): GridLayout {
  const { left, right } = pair;
  const half = kind === 'change' ? left : right;
  const values = kind === 'change' ? changesByLayer(left.side, ranking)
    : distancesToOtherHeads(capture, left.index, left.layer, left.heads[0]);
  const columns = Math.max(1, ...values.map((row) => row.length));
  const namesWidth = layerNamesWidth(half.side);
  const cellWidth = Math.min(CELL_PIXELS.maxWidth, (w - namesWidth) / columns);
  const cellHeight = Math.max(CELL_PIXELS.minHeight, Math.min(CELL_PIXELS.maxHeight, cellWidth));
  return { half, values, columns, cellWidth, cellHeight, x: x + namesWidth,
    y: y + TITLE_HEIGHT + HEAD_NUMBERS_HEIGHT };
}

// Width of the layer names, in pixels.
function layerNamesWidth(side: Side): number {
  return 14 + 6.4 * Math.max(1, ...side.layers.map((_, layer) => layerName(side, layer).length));
}

const cellRect = ({ x, y, cellWidth, cellHeight }: GridLayout, layer: number,
  head: number): Rect => (
  { x: x + head * cellWidth, y: y + layer * cellHeight, w: cellWidth, h: cellHeight });

function heading({ kind, pair, x, y, w }: HeadGridOptions): Mark[] {
  const [half, subtitle] = kind === 'change'
    ? [pair.left, 'stronger color: changed more; click to show a head']
    : [pair.right, `stronger color: more similar to ${
      describeHeads(pair.left)} (by small maps); click to compare with it`];
  return [
    textMark(x, y + 13, `Heads of ${sideName(half.side)}`, 13, { bold: true, limit: w }),
    textMark(x, y + 29, subtitle, 11, { fill: 'dim', limit: w }),
  ];
}

function cellMarks({ values, columns, x, y, cellWidth, cellHeight }: GridLayout,
  kind: HeadGridOptions['kind']): Mark[] {
  const rows = values.length;
  const colors = new Float32Array(rows * columns).fill(NaN);
  // change relative to the largest one; similarity is 1 minus the distance
  const largest = Math.max(1e-9, ...values.flat());
  values.forEach((row, layer) => colors.set(
    row.map((value) => (kind === 'change' ? value / largest : 1 - value)), layer * columns));
  const rect = { x, y, w: cellWidth * columns, h: cellHeight * rows };
  return [
    { kind: 'raster', ...rect, rows, columns, values: colors, signed: false },
    rectMark(rect.x, rect.y, rect.w, rect.h, { stroke: 'rule' }),
  ];
}

function nameMarks({ half, values, columns, x, y, cellWidth, cellHeight }: GridLayout): Mark[] {
  const step = Math.max(1, Math.ceil(16 / cellWidth));
  const limit = layerNamesWidth(half.side);
  const heads = Array.from({ length: Math.ceil(columns / step) }, (_, i) => i * step);
  return [
    ...values.map((_, layer) => textMark(x - 6, y + (layer + 0.5) * cellHeight + 4,
      layerName(half.side, layer), 11, { anchor: 'end', fill: 'dim', limit })),
    ...heads.map((head) => textMark(x + (head + 0.5) * cellWidth, y - 4,
      columnName(half.side, head), 10,
      { anchor: 'middle', fill: 'dim' })),
  ];
}

// The head number, or the column index if layers captured different heads.
function columnName(side: Side, head: number): string {
  const all = new Set(side.layers.filter((layer) => head < layer.heads.length)
    .map((layer) => headName(layer, head)));
  return all.size === 1 ? [...all][0] : `${head}`;
}

// Frames in two colors, so that one is visible on any background.
function selectionFrames(grid: GridLayout): Mark[] {
  const { heads, layer, side } = grid.half;
  if (heads.length === side.layers[layer].heads.length) return [];
  return heads.flatMap((head) => {
    const { x, y, w, h } = cellRect(grid, layer, head);
    return [rectMark(x, y, w, h, { stroke: 'page' }), ...[1, 2].map((out) => (
      rectMark(x - out, y - out, w + 2 * out, h + 2 * out, { stroke: 'accent' })))];
  });
}

function changesByLayer(side: Side, ranking: Ranking): number[][] {
  const rows = side.layers.map((layer) => layer.heads.map(() => NaN));
  for (const each of ranking.changes) rows[each.layer][each.head] = each.change;
  return rows;
}

function headTarget(
  kind: HeadGridOptions['kind'], { side }: ComparedSide, { left }: ComparedPair, layer: number,
    head: number, value: number,
): Omit<Target, 'x' | 'y' | 'w' | 'h'> {
  const name = `${layerTitle(side, layer)}, head ${headName(side.layers[layer], head)} of ${
    sideName(side)}`;
  const quantity = kind === 'change' ? 'change'
    : `distance from ${describeHeads(left)} of ${sideName(left.side)}`;
  const text = `${quantity} ${number(value, 3)}`;
  return {
    label: `${name}: ${text}`,
    key: `compare/${kind}/${layer}/${head}`,
    pick: kind === 'change' ? { layer, heads: [head], mean: false, against: null }
      : { against: [layer, head] },
    tooltip: () => [name, text, patternLabel(side, layer, head)],
  };
}
