// The data of a plot, read from the JSON of attnlab/report/_content.py.

import type { Table } from '../shared/table-type';
import { formatLong, formatPercent } from './number-format';

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
  pen?: number; // its color and dash; by default the index among the series
  literal?: boolean; // show the name without formatting formulas
  ghost?: Point[]; // raw points, drawn faintly behind the line
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
  nearest?: boolean; // series have different x values: read the nearest point of each
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
  literal?: boolean; // show names without formatting formulas
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
  names: string[]; // if not empty, values are indices into it
  texts: string[][];
}

export type Plot = Lines | Bars | Heatmap;

type Raw = Record<string, unknown>;

// Reads a plot from any JSON; null if it is not a plot.
export function readPlot(raw: unknown): Plot | null {
  if (!isRecord(raw)) return null;
  if (raw.kind === 'heatmap') return readHeatmap(raw);
  const marks = readList(raw.marks)
    .filter(isRecord)
    .map((mark) => ({ label: readText(mark.label), x: readOptionalNumber(mark.x), y: readOptionalNumber(mark.y) }));
  const y = readText(raw.y);
  if (raw.kind === 'bars') {
    const beside = new Map(readList(raw.beside).map((pair) => [readList(pair)[0], readOptionalNumber(readList(pair)[1])]));
    const values = readList(raw.values).map((pair): Bar => {
      const [name, estimate] = readList(pair);
      return { name: readText(name), ...readEstimate(estimate), beside: beside.get(name) ?? null };
    });
    const besideName = readText(raw.beside_name);
    return { kind: 'bars', y, values, marks, percent: raw.percent === true, besideName };
  }
  if (raw.kind !== 'lines') return null;
  return {
    kind: 'lines',
    x: readText(raw.x),
    y,
    xLog: raw.x_log === true,
    yLog: raw.y_log === true,
    xPercent: raw.x_percent === true,
    yPercent: raw.y_percent === true,
    series: readList(raw.series).filter(isRecord).map(readSeries),
    marks,
  };
}

function readSeries(raw: Raw): Series {
  const band = readList(raw.band);
  const points = readList(raw.points).map((each, i) => {
    const [x, y] = readList(each);
    const [low, high] = readList(band[i]);
    return { x: readNumber(x), y: readNumber(y), low: readOptionalNumber(low), high: readOptionalNumber(high) };
  });
  return { name: readText(raw.name), points, errorBars: raw.error_bars === true };
}

export interface Estimate {
  value: number;
  low: number | null;
  high: number | null;
}

export function readEstimate(raw: unknown): Estimate {
  const { value, low, high } = isRecord(raw) ? raw : {};
  return { value: readNumber(value), low: readOptionalNumber(low), high: readOptionalNumber(high) };
}

// Null unless the values fit rows and columns.
function readHeatmap(raw: Raw): Heatmap | null {
  const map: Heatmap = {
    kind: 'heatmap',
    x: readText(raw.x),
    y: readText(raw.y),
    z: readText(raw.z),
    columns: readList(raw.columns).map(readText),
    rows: readList(raw.rows).map(readText),
    values: readList(raw.values).map((row) => readList(row).map(readOptionalNumber)),
    log: raw.log === true,
    center: typeof raw.center === 'number' ? raw.center : null,
    names: readList(raw.names).map(readText),
    texts: readList(raw.texts).map((row) => readList(row).map(readText)),
  };
  const fits = map.values.every((row) => row.length === map.columns.length);
  return fits && map.values.length === map.rows.length ? map : null;
}

// JSON has no infinity, so it is a text; files of version 0.1 abbreviate it.
export function readNumber(raw: unknown): number {
  if (typeof raw === 'number') return raw;
  const infinite = typeof raw === 'string' && /^(-?)inf(inity)?$/i.exec(raw);
  return infinite ? (infinite[1] ? -Infinity : Infinity) : NaN;
}

export function readOptionalNumber(raw: unknown): number | null {
  return raw === null || raw === undefined ? null : readNumber(raw);
}

export function isRecord(raw: unknown): raw is Raw {
  return typeof raw === 'object' && raw !== null && !Array.isArray(raw);
}

export function readList(raw: unknown): unknown[] {
  return Array.isArray(raw) ? raw : [];
}

export function readText(raw: unknown): string {
  return typeof raw === 'string' ? raw : '';
}

// "0.4 (0.3 to 0.5)"
export function formatEstimate({ value, low, high }: Estimate, write = formatLong): string {
  return low === null || high === null
    ? write(value)
    : `${write(value)} (${write(low)} to ${write(high)})`;
}

export const numberFormat = (inPercent?: boolean): typeof formatLong =>
  inPercent ? formatPercent : formatLong;

// The plot as a table: one row per point, bar or row of a heatmap.
export function plotTable(plot: Plot, title: string): Table {
  if (plot.kind === 'heatmap') {
    const name = (value: number | null): string | number =>
      plot.names.length ? (plot.names[value ?? -1] ?? '') : (value ?? '');
    const rows = plot.rows.map((row, i) => [row, ...plot.values[i].map(name)]);
    return { title, header: [plot.y, ...plot.columns], rows };
  }
  if (plot.kind === 'bars') {
    const hasSecondBars = plot.values.some((bar) => bar.beside != null);
    const rows = plot.values.map((bar) => [
      bar.name,
      ...(hasSecondBars ? [bar.beside ?? ''] : []),
      bar.value,
      bar.low ?? '',
      bar.high ?? '',
    ]);
    const header = ['name', ...(hasSecondBars ? [plot.besideName || 'beside'] : []), plot.y];
    return dropEmptyIntervals({ title, header: [...header, 'from', 'to'], rows });
  }
  const rows = plot.series.flatMap((series) =>
    series.points.map(({ x, y, low, high }) => [series.name, x, y, low ?? '', high ?? '']),
  );
  return dropEmptyIntervals({ title, header: ['series', plot.x, plot.y, 'from', 'to'], rows });
}

// Removes the columns of intervals if there are none.
function dropEmptyIntervals({ title, header, rows }: Table): Table {
  const keep = header.length - (rows.every((row) => row.at(-1) === '') ? 2 : 0);
  return { title, header: header.slice(0, keep), rows: rows.map((row) => row.slice(0, keep)) };
}

// Spells infinity and NaN as words, for a file.
export function spellSpecialNumbers(table: Table): Table {
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
