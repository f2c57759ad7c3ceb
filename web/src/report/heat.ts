// A map of values as colors: where each value lies on the colors, and how it is told.

import { contrast, LEVELS } from '../shared/color';
import { theme, type Mode } from '../shared/theme';
import { brief, long } from './numbers';
import type { Heatmap } from './plot';
import { drawable, scaleOver, type Scale } from './scales';

const FULL = 10; // times above or below the center: there a color is full

export interface Shares {
  scale: Scale; // from 0 at one end of the colors to 1 at the other
  log: boolean;
  center: number | null;
}

// Around a center both sides reach as far, at most ten times where the scale is logarithmic.
export function sharesOf({ values, log: wanted, center }: Heatmap): Shares {
  const log = wanted && (center === null || center > 0);
  const all = values.flat().filter((value) => drawable(value, log));
  const over = (some: number[]): Shares => ({ scale: scaleOver(some, [0, 1], log), log, center });
  if (center === null || !all.length) return over(all);
  const away = (value: number): number =>
    log ? Math.max(value / center, center / value) : Math.abs(value - center);
  const most = all.reduce((least, value) => Math.max(least, away(value)), log ? 1 : 0);
  if (!log) return over([center - (most || 1), center + (most || 1)]);
  const times = most > 1 ? Math.min(most, FULL) : FULL;
  return over([center / times, center * times]);
}

// "#rrggbb". Below a center blue, above it orange: smaller is better in most that is measured.
export function colorAt({ scale, center }: Shares, value: number, mode: Mode): string {
  const { sequential, diverging } = theme(mode);
  const share = scale(value);
  return center === null ? level(sequential, 0.08 + 0.92 * share) : level(diverging, 1 - share);
}

function level(ramp: Uint8Array, share: number): string {
  const place = 3 * Math.round(share * (LEVELS - 1));
  const part = (i: number): string => ramp[place + i].toString(16).padStart(2, '0');
  return `#${part(0)}${part(1)}${part(2)}`;
}

export function cellColor(map: Heatmap, shares: Shares, value: number | null, mode: Mode): string {
  if (value === null || Number.isNaN(value)) return theme(mode).color('card');
  if (map.names.length) return theme(mode).color(`head${value}`);
  return colorAt(shares, value, mode);
}

// Of two inks the one that is read on this ground.
export function inkOn(ground: string): string {
  return contrast(ground, '#ffffff') > contrast(ground, '#111111') ? '#ffffff' : '#111111';
}

// What stands in a cell, in a readout and in the table.
export function told(map: Heatmap, value: number | null, precise = false): string {
  if (value === null || Number.isNaN(value)) return '–';
  if (map.names.length) return map.names[value] ?? '–';
  return precise ? long(value) : brief(value);
}

// What has room in a cell of so many letters: a name, or its first letter where that is enough.
export function inCell(map: Heatmap, value: number | null, room: number): string {
  const whole = told(map, value);
  if (whole.length <= room) return whole;
  const firsts = map.names.map((name) => Array.from(name)[0] ?? '');
  const apart = firsts.length > 0 && new Set(firsts).size === firsts.length;
  return apart && room >= 1 ? (Array.from(whole)[0] ?? '') : '';
}

// The ends of the colors and the middle; around a center there may be values beyond the ends.
export function legendOf({ scale, center }: Shares): string[] {
  const [low, high] = scale.domain();
  const [below, above] = center === null ? ['', ''] : ['≤ ', '≥ '];
  return [below + brief(low), brief(scale.invert(0.5)), above + brief(high)];
}

export interface Place {
  row: number;
  column: number;
}

// Where a key leads, undefined if it is none of ours, null to leave.
export function stepped(key: string, at: Place | null, map: Heatmap): Place | null | undefined {
  const [rows, columns] = [map.rows.length - 1, map.columns.length - 1];
  const bound = (row: number, column: number): Place => ({
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
  const { row, column } = at ?? { row: 0, column: 0 };
  if (key === 'Home') return bound(row, 0);
  if (key === 'End') return bound(row, columns);
  if (key === 'PageUp') return bound(0, column);
  if (key === 'PageDown') return bound(rows, column);
  const by = Object.hasOwn(steps, key) ? steps[key] : undefined;
  if (!by) return undefined;
  return at === null ? bound(0, 0) : bound(row + by[0], column + by[1]);
}

// The cell at a place of the drawing.
export function cellAt(map: Heatmap, x: number, y: number): Place | null {
  if (!(x >= 0 && x < 1 && y >= 0 && y < 1)) return null;
  return { row: Math.floor(y * map.rows.length), column: Math.floor(x * map.columns.length) };
}

// "favor, 256 features; norm 8: 3.4 (error 2.7)"
export function readout(map: Heatmap, { row, column }: Place): string {
  const more = map.texts[row]?.[column];
  const value = told(map, map.values[row]?.[column] ?? null, true);
  return `${map.y} ${map.rows[row]}, ${map.x} ${map.columns[column]}: ${value}${more ? `; ${more}` : ''}`;
}
