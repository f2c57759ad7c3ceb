// What a figure is drawn from, read from the JSON of attnlab/report/_content.py.

import type { Table } from '../shared/table';
import { long, percent } from './numbers';

export interface Point {
  x: number;
  y: number;
  low: number | null; // of its interval
  high: number | null;
}

export interface Series {
  name: string;
  points: Point[];
  errorBars?: boolean; // draw intervals as bars, not as a band
  pen?: number; // its color and dash; else its place among the series
  literal?: boolean; // the name is no formula
  ghost?: Point[]; // drawn faintly behind it: what it was made from
}

export interface Mark {
  label: string;
  x: number | null;
  y: number | null;
}

export interface Lines {
  kind: 'lines';
  x: string;
  y: string;
  xLog: boolean;
  yLog: boolean;
  series: Series[];
  marks: Mark[];
  xPercent?: boolean;
  yPercent?: boolean;
  nearest?: boolean; // series have points at other places: of each the nearest is read
}

export interface Bar {
  name: string;
  value: number;
  low: number | null;
  high: number | null;
  beside?: number | null; // a second, paler bar
}

export interface Bars {
  kind: 'bars';
  y: string;
  values: Bar[];
  marks: Mark[];
  percent?: boolean;
  besideName?: string;
  literal?: boolean; // names are no formulas
}

export interface Heatmap {
  kind: 'heatmap';
  x: string;
  y: string;
  z: string;
  columns: string[];
  rows: string[];
  values: (number | null)[][];
  log: boolean;
  center: number | null;
  names: string[]; // not empty: values are places in it
  texts: string[][];
}

export type Plot = Lines | Bars | Heatmap;

type Raw = Record<string, unknown>;

// A plot of whatever the JSON holds; null if it is none.
export function readPlot(raw: unknown): Plot | null {
  if (!isRecord(raw)) return null;
  if (raw.kind === 'heatmap') return readHeatmap(raw);
  const marks = list(raw.marks)
    .filter(isRecord)
    .map((mark) => ({ label: text(mark.label), x: end(mark.x), y: end(mark.y) }));
  const y = text(raw.y);
  if (raw.kind === 'bars') {
    const beside = new Map(list(raw.beside).map((pair) => [list(pair)[0], end(list(pair)[1])]));
    const values = list(raw.values).map((pair): Bar => {
      const [name, estimate] = list(pair);
      return { name: text(name), ...readEstimate(estimate), beside: beside.get(name) ?? null };
    });
    const besideName = text(raw.beside_name);
    return { kind: 'bars', y, values, marks, percent: raw.percent === true, besideName };
  }
  if (raw.kind !== 'lines') return null;
  return {
    kind: 'lines',
    x: text(raw.x),
    y,
    xLog: raw.x_log === true,
    yLog: raw.y_log === true,
    xPercent: raw.x_percent === true,
    yPercent: raw.y_percent === true,
    series: list(raw.series).filter(isRecord).map(readSeries),
    marks,
  };
}

function readSeries(raw: Raw): Series {
  const band = list(raw.band);
  const points = list(raw.points).map((each, i) => {
    const [x, y] = list(each);
    const [low, high] = list(band[i]);
    return { x: readNumber(x), y: readNumber(y), low: end(low), high: end(high) };
  });
  return { name: text(raw.name), points, errorBars: raw.error_bars === true };
}

export interface Estimate {
  value: number;
  low: number | null;
  high: number | null;
}

export function readEstimate(raw: unknown): Estimate {
  const { value, low, high } = isRecord(raw) ? raw : {};
  return { value: readNumber(value), low: end(low), high: end(high) };
}

// Null unless there are as many values as rows and columns say.
function readHeatmap(raw: Raw): Heatmap | null {
  const map: Heatmap = {
    kind: 'heatmap',
    x: text(raw.x),
    y: text(raw.y),
    z: text(raw.z),
    columns: list(raw.columns).map(text),
    rows: list(raw.rows).map(text),
    values: list(raw.values).map((row) => list(row).map(end)),
    log: raw.log === true,
    center: typeof raw.center === 'number' ? raw.center : null,
    names: list(raw.names).map(text),
    texts: list(raw.texts).map((row) => list(row).map(text)),
  };
  const fits = map.values.every((row) => row.length === map.columns.length);
  return fits && map.values.length === map.rows.length ? map : null;
}

// JSON has no infinity: those are texts; files of version 0.1 spell them in short.
export function readNumber(raw: unknown): number {
  if (typeof raw === 'number') return raw;
  const infinite = typeof raw === 'string' && /^(-?)inf(inity)?$/i.exec(raw);
  return infinite ? (infinite[1] ? -Infinity : Infinity) : NaN;
}

export function end(raw: unknown): number | null {
  return raw === null || raw === undefined ? null : readNumber(raw);
}

export function isRecord(raw: unknown): raw is Raw {
  return typeof raw === 'object' && raw !== null && !Array.isArray(raw);
}

export function list(raw: unknown): unknown[] {
  return Array.isArray(raw) ? raw : [];
}

export function text(raw: unknown): string {
  return typeof raw === 'string' ? raw : '';
}

// "0.4 (0.3 to 0.5)"
export function told({ value, low, high }: Estimate, write = long): string {
  return low === null || high === null
    ? write(value)
    : `${write(value)} (${write(low)} to ${write(high)})`;
}

export const writes = (inPercent?: boolean): typeof long => (inPercent ? percent : long);

// The same numbers as a table: a row for each point, bar or row of a map.
export function tableOf(plot: Plot, title: string): Table {
  if (plot.kind === 'heatmap') {
    const name = (value: number | null): string | number =>
      plot.names.length ? (plot.names[value ?? -1] ?? '') : (value ?? '');
    const rows = plot.rows.map((row, i) => [row, ...plot.values[i].map(name)]);
    return { title, header: [plot.y, ...plot.columns], rows };
  }
  if (plot.kind === 'bars') {
    const besides = plot.values.some((bar) => bar.beside != null);
    const rows = plot.values.map((bar) => [
      bar.name,
      ...(besides ? [bar.beside ?? ''] : []),
      bar.value,
      bar.low ?? '',
      bar.high ?? '',
    ]);
    const header = ['name', ...(besides ? [plot.besideName || 'beside'] : []), plot.y];
    return trimmed({ title, header: [...header, 'from', 'to'], rows });
  }
  const rows = plot.series.flatMap((series) =>
    series.points.map(({ x, y, low, high }) => [series.name, x, y, low ?? '', high ?? '']),
  );
  return trimmed({ title, header: ['series', plot.x, plot.y, 'from', 'to'], rows });
}

// Without columns for intervals where there are none.
function trimmed({ title, header, rows }: Table): Table {
  const keep = header.length - (rows.every((row) => row.at(-1) === '') ? 2 : 0);
  return { title, header: header.slice(0, keep), rows: rows.map((row) => row.slice(0, keep)) };
}

// For a file, which has no sign for what is infinite.
export function spelled(table: Table): Table {
  const word = (value: string | number): string | number =>
    typeof value === 'string' || Number.isFinite(value)
      ? value
      : Number.isNaN(value)
        ? 'nan'
        : value > 0
          ? 'inf'
          : '-inf';
  return { ...table, rows: table.rows.map((row) => row.map(word)) };
}
