// A cell of the comparison's maps: the same two tokens on both sides and in the difference.

import { number, quoted, rounded } from '../../shared/text';
import type { Target } from '../view';
import type { Alignment } from './align';
import { sideName } from './naming';
import type { Maps, Pair } from './pairing';
import { cellAt, cellBox, crosshair, type Panel } from './panel';

type Cell = [number, number]; // query and key; -1: not there

export function pairTarget(
  panels: Panel[], pair: Pair, maps: Maps, x: number, y: number,
): Target | null {
  for (const [which, panel] of panels.entries()) {
    const cell = cellAt(panel, x, y);
    if (cell) return cellTarget(panels, pair, maps, which, cell);
  }
  return null;
}

function cellTarget(
  panels: Panel[], pair: Pair, maps: Maps, which: number, [row, column]: Cell,
): Target {
  const places = [0, 1, 2].map((to): Cell => (
    [moved(maps.queries, row, which, to), moved(maps.keys, column, which, to)]));
  const panel = panels[which];
  const name = `${quoted(panel.rows[row].text)} looks at ${quoted(panel.columns[column].text)}`;
  const value = number(panel.values[row * panel.columns.length + column]);
  return {
    ...cellBox(panel, row, column),
    key: `compare/cell/${which}/${row}/${column}`,
    label: `${['', '', 'Difference, '][which]}${name}: ${value}`,
    tip: () => [name, ...tipOf(pair, maps, places)],
    over: () => panels.flatMap((each, i) => (
      places[i].some((place) => place < 0) ? [] : crosshair(each, ...places[i]))),
  };
}

function tipOf(pair: Pair, maps: Maps, places: Cell[]): string[] {
  const sides = [[pair.left, maps.left, maps.leftValues],
    [pair.right, maps.right, maps.rightValues]] as const;
  const lines = sides.map(([half, seen, values], i) => {
    const [q, k] = places[i];
    if (q < 0 || k < 0) return `${sideName(half.side)}: not these tokens`;
    const value = values[q * seen.keys.length + k];
    return `${sideName(half.side)}: ${rounded(value, seen.bound(half.heads, q, k))}`;
  });
  const [q, k] = places[2];
  if (q < 0 || k < 0) return lines;
  return [...lines, `difference: ${number(maps.difference[q * maps.keys.left.length + k])}`];
}

// From a place in one of the maps (0 left, 1 right, 2 difference) to the same token in another.
function moved(alignment: Alignment, place: number, from: number, to: number): number {
  if (from === to) return place;
  const { left, right } = alignment;
  const common = from === 2 ? place : (from === 0 ? left : right).indexOf(place);
  if (common < 0 || to === 2) return common;
  return (to === 0 ? left : right)[common];
}
