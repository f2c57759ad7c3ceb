// Cells of the compare view: the same pair of tokens on both sides and in the difference.

import { sideName } from '../names';
import { number, quoted, sensible } from '../../shared/readable-text';
import type { Target } from '../view';
import type { Alignment } from './align-tokens';
import type { ComparedMaps, ComparedPair } from './compare-data';
import { cellAt, cellRect, crosshair, type HeatmapPanel } from './heatmap-panel';

type CellIndex = [number, number]; // query and key; -1 if the map does not have it

export function cellTargetAt(
  panels: HeatmapPanel[], pair: ComparedPair, maps: ComparedMaps, x: number, y: number,
): Target | null {
  for (const [map, panel] of panels.entries()) {
    const cell = cellAt(panel, x, y);
    if (cell) return cellTarget(panels, pair, maps, map, cell);
  }
  return null;
}

function cellTarget(
  panels: HeatmapPanel[], pair: ComparedPair, maps: ComparedMaps, map: number,
    [row, column]: CellIndex,
): Target {
  const cells = [0, 1, 2].map((to): CellIndex => (
    [toOtherMap(maps.queries, row, map, to), toOtherMap(maps.keys, column, map, to)]));
  const panel = panels[map];
  const name = `${quoted(panel.rows[row].text)} attends to ${quoted(panel.columns[column].text)}`;
  const value = number(panel.values[row * panel.columns.length + column]);
  return {
    ...cellRect(panel, row, column),
    key: `compare/cell/${map}/${row}/${column}`,
    label: `${['', '', 'Difference, '][map]}${name}: ${value}`,
    tooltip: () => [name, ...tooltipLines(pair, maps, cells)],
    overlay: () => panels.flatMap((each, i) => (
      cells[i].some((index) => index < 0) ? [] : crosshair(each, ...cells[i]))),
  };
}

function tooltipLines(pair: ComparedPair, maps: ComparedMaps, cells: CellIndex[]): string[] {
  const halves = [[pair.left, maps.left, maps.leftValues],
    [pair.right, maps.right, maps.rightValues]] as const;
  const lines = halves.map(([half, prepared, values], i) => {
    const [q, k] = cells[i];
    if (q < 0 || k < 0) return `${sideName(half.side)}: does not have these tokens`;
    const value = values[q * prepared.keys.length + k];
    return `${sideName(half.side)}: ${sensible(value, prepared.errorBound(half.heads, q, k))}`;
  });
  const [q, k] = cells[2];
  if (q < 0 || k < 0) return lines;
  return [...lines, `difference: ${number(maps.difference[q * maps.keys.left.length + k])}`];
}

// Converts an index in one map (0 left, 1 right, 2 difference) to the same token in another map.
function toOtherMap(alignment: Alignment, index: number, from: number, to: number): number {
  if (from === to) return index;
  const { left, right } = alignment;
  const commonIndex = from === 2 ? index : (from === 0 ? left : right).indexOf(index);
  if (commonIndex < 0 || to === 2) return commonIndex;
  return (to === 0 ? left : right)[commonIndex];
}
