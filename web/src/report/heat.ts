// A map of values as colours: what the JSON holds, and where each value lies on the colours. Pure.

import { contrast, LEVELS } from '../shared/colour';
import type { Theme } from '../shared/theme';
import { long, short } from './numbers';
import { end, isRecord, list, text } from './plot';

export interface Heatmap {
  kind: 'heatmap';
  x: string;
  y: string;
  z: string;
  columns: string[];
  rows: string[];
  values: (number | null)[][];
  log: boolean;
  centre: number | null;
  names: string[]; // not empty: values are places in it
  texts: string[][];
}

// Null if it is none: as many values as rows and columns say.
export function readHeatmap(raw: unknown): Heatmap | null {
  if (!isRecord(raw) || raw.kind !== 'heatmap') return null;
  const map: Heatmap = {
    kind: 'heatmap',
    x: text(raw.x),
    y: text(raw.y),
    z: text(raw.z),
    columns: list(raw.columns).map(text),
    rows: list(raw.rows).map(text),
    values: list(raw.values).map((row) => list(row).map(end)),
    log: raw.log === true,
    centre: typeof raw.centre === 'number' ? raw.centre : null,
    names: list(raw.names).map(text),
    texts: list(raw.texts).map((row) => list(row).map(text)),
  };
  const fits = map.values.every((row) => row.length === map.columns.length);
  return fits && map.values.length === map.rows.length ? map : null;
}

const SMALLEST = 1e-300;
const FULL = 10; // times above or below the centre: there a colour is full

// Values from one end of the colours to the other.
export interface Scale {
  low: number;
  high: number;
  log: boolean;
  centre: number | null;
}

const turn = (value: number, log: boolean): number =>
  log ? Math.log10(Math.max(value, SMALLEST)) : value;

// Around a centre both sides reach as far, at most ten times where the scale is logarithmic.
export function scaleOf({ values, log, centre }: Heatmap): Scale {
  const all = values
    .flat()
    .filter((value): value is number => value !== null && Number.isFinite(value))
    .filter((value) => !log || value > 0);
  const logarithmic = log && (centre === null || centre > 0);
  const places = all.map((value) => turn(value, logarithmic));
  const [low, high] = [Math.min(...places, Infinity), Math.max(...places, -Infinity)];
  const back = (place: number): number => (logarithmic ? 10 ** place : place);
  if (!all.length) return { low: logarithmic ? 0.1 : 0, high: 1, log: logarithmic, centre };
  if (centre === null) {
    const room = high > low ? 0 : Math.abs(high) || 1;
    return { low: back(low - room / 2), high: back(high + room / 2), log: logarithmic, centre };
  }
  const middle = turn(centre, logarithmic);
  const most = Math.max(Math.abs(low - middle), Math.abs(high - middle)) || 1;
  const away = logarithmic ? Math.min(most, Math.log10(FULL)) : most;
  return { low: back(middle - away), high: back(middle + away), log: logarithmic, centre };
}

// From 0 at the low end to 1 at the high end; what lies beyond lies at the ends.
export function shareOf(scale: Scale, value: number): number {
  if (value === Infinity) return 1;
  if (value === -Infinity) return 0;
  const [low, high] = [turn(scale.low, scale.log), turn(scale.high, scale.log)];
  const share = (turn(value, scale.log) - low) / (high - low);
  return Math.min(1, Math.max(0, share));
}

// "#rrggbb". Below a centre blue, above it orange: smaller is better in what is measured here.
export function colourAt(scale: Scale, value: number, theme: Theme): string {
  const ramp = scale.centre === null ? theme.sequential : theme.diverging;
  const share = shareOf(scale, value);
  return level(ramp, scale.centre === null ? 0.08 + 0.92 * share : 1 - share);
}

function level(ramp: Uint8Array, share: number): string {
  const place = 3 * Math.round(share * (LEVELS - 1));
  const part = (i: number): string => ramp[place + i].toString(16).padStart(2, '0');
  return `#${part(0)}${part(1)}${part(2)}`;
}

export function cellColour(map: Heatmap, scale: Scale, value: number | null, theme: Theme): string {
  if (value === null || Number.isNaN(value)) return theme.colour('card');
  if (map.names.length) return theme.colour(`head${value}`);
  return colourAt(scale, value, theme);
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

// Three digits: more do not fit in a cell.
export function brief(value: number): string {
  return Number.isFinite(value) ? short(Number(value.toPrecision(3))) : short(value);
}

export interface Stop {
  share: number;
  text: string;
}

// The ends of the colours and the middle; around a centre there may be more beyond the ends.
export function legendOf(scale: Scale): Stop[] {
  const [low, high] = [turn(scale.low, scale.log), turn(scale.high, scale.log)];
  const middle = (low + high) / 2;
  const [below, above] = scale.centre === null ? ['', ''] : ['≤ ', '≥ '];
  return [
    { share: 0, text: below + brief(scale.low) },
    { share: 0.5, text: brief(scale.log ? 10 ** middle : middle) },
    { share: 1, text: above + brief(scale.high) },
  ];
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

// The cell at a place of the canvas.
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
