// Colors and texts of the cells of a heatmap.

import { contrast, LEVELS } from '../shared/color';
import { theme, type Mode } from '../shared/theme';
import { formatBrief, formatLong } from './number-format';
import type { Heatmap } from './plot-data';
import { isDrawable, createScale, type Scale } from './scales';

const FULL_COLOR_FACTOR = 10; // above or below the center, at which a color is full

export interface ColorScale {
  scale: Scale; // from 0 at one end of the colors to 1 at the other
  log: boolean;
  center: number | null;
}

// Around a center, both directions have the same range; a logarithmic one is at most a factor of 10.
export function colorScale({ values, log: logarithmic, center }: Heatmap): ColorScale {
  const log = logarithmic && (center === null || center > 0);
  const all = values.flat().filter((value) => isDrawable(value, log));
  const createOver = (some: number[]): ColorScale => ({ scale: createScale(some, [0, 1], log), log, center });
  if (center === null || !all.length) return createOver(all);
  const distance = (value: number): number =>
    log ? Math.max(value / center, center / value) : Math.abs(value - center);
  const largest = all.reduce((maximum, value) => Math.max(maximum, distance(value)), log ? 1 : 0);
  if (!log) return createOver([center - (largest || 1), center + (largest || 1)]);
  const times = largest > 1 ? Math.min(largest, FULL_COLOR_FACTOR) : FULL_COLOR_FACTOR;
  return createOver([center / times, center * times]);
}

// A color "#rrggbb": blue below a center, orange above, because smaller is mostly better.
export function valueColor({ scale, center }: ColorScale, value: number, mode: Mode): string {
  const { sequential, diverging } = theme(mode);
  const position = scale(value);
  return center === null ? level(sequential, 0.08 + 0.92 * position) : level(diverging, 1 - position);
}

function level(ramp: Uint8Array, position: number): string {
  const index = 3 * Math.round(position * (LEVELS - 1));
  const part = (i: number): string => ramp[index + i].toString(16).padStart(2, '0');
  return `#${part(0)}${part(1)}${part(2)}`;
}

export function cellColor(map: Heatmap, scale: ColorScale, value: number | null, mode: Mode): string {
  if (value === null || Number.isNaN(value)) return theme(mode).color('card');
  if (map.names.length) return theme(mode).color(`head${value}`);
  return valueColor(scale, value, mode);
}

// The text color with more contrast on this background.
export function textColorOn(background: string): string {
  return contrast(background, '#ffffff') > contrast(background, '#111111') ? '#ffffff' : '#111111';
}

// The text of a cell, in the plot, the readout and the table.
export function formatCell(map: Heatmap, value: number | null, precise = false): string {
  if (value === null || Number.isNaN(value)) return '–';
  if (map.names.length) return map.names[value] ?? '–';
  return precise ? formatLong(value) : formatBrief(value);
}

// The text that fits into a cell: the whole text, or its first letter if that is unique.
export function fitCellText(map: Heatmap, value: number | null, length: number): string {
  const whole = formatCell(map, value);
  if (whole.length <= length) return whole;
  const initials = map.names.map((name) => Array.from(name)[0] ?? '');
  const unique = initials.length > 0 && new Set(initials).size === initials.length;
  return unique && length >= 1 ? (Array.from(whole)[0] ?? '') : '';
}

// The values at both ends and in the middle; around a center, values may lie beyond the ends.
export function legendTexts({ scale, center }: ColorScale): string[] {
  const [low, high] = scale.domain();
  const [below, above] = center === null ? ['', ''] : ['≤ ', '≥ '];
  return [below + formatBrief(low), formatBrief(scale.invert(0.5)), above + formatBrief(high)];
}

export interface CellPosition {
  row: number;
  column: number;
}

// The cell to which a key leads: undefined for other keys, null to leave the plot.
export function nextCell(key: string, current: CellPosition | null, map: Heatmap): CellPosition | null | undefined {
  const [rows, columns] = [map.rows.length - 1, map.columns.length - 1];
  const bound = (row: number, column: number): CellPosition => ({
    row: Math.min(rows, Math.max(0, row)),
    column: Math.min(columns, Math.max(0, column)),
  });
  if (key === 'Escape') return null;
  const steps: Record<string, [number, number]> = {
    ArrowUp: [-1, 0],
    ArrowDown: [1, 0],
    ArrowLeft: [0, -1],
    ArrowRight: [0, 1],
  };
  const { row, column } = current ?? { row: 0, column: 0 };
  if (key === 'Home') return bound(row, 0);
  if (key === 'End') return bound(row, columns);
  if (key === 'PageUp') return bound(0, column);
  if (key === 'PageDown') return bound(rows, column);
  const by = Object.hasOwn(steps, key) ? steps[key] : undefined;
  if (!by) return undefined;
  return current === null ? bound(0, 0) : bound(row + by[0], column + by[1]);
}

// The cell at a position of the plot, given as fractions of its size.
export function cellAt(map: Heatmap, x: number, y: number): CellPosition | null {
  if (!(x >= 0 && x < 1 && y >= 0 && y < 1)) return null;
  return { row: Math.floor(y * map.rows.length), column: Math.floor(x * map.columns.length) };
}

// "favor, 256 features; norm 8: 3.4 (error 2.7)"
export function describeCell(map: Heatmap, { row, column }: CellPosition): string {
  const details = map.texts[row]?.[column];
  const value = formatCell(map, map.values[row]?.[column] ?? null, true);
  return `${map.y} ${map.rows[row]}, ${map.x} ${map.columns[column]}: ${value}${details ? `; ${details}` : ''}`;
}
