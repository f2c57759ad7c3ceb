// What a figure is drawn from, as attnlab/claims/ledger.py writes it. Nothing here knows of claims.

import type { Table } from '../look/view';

export interface Point {
  x: number;
  y: number;
  low: number | null; // of its interval
  high: number | null;
}

export interface Series {
  name: string;
  points: Point[];
  pen?: number; // its colour and dash; else its place among the series
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
  nearest?: boolean; // series have points at other places: of each the nearest is read
}

export interface Bar {
  name: string;
  value: number;
  low: number | null;
  high: number | null;
}

export interface Bars {
  kind: 'bars';
  y: string;
  values: Bar[];
  marks: Mark[];
  literal?: boolean; // names are no formulas
}

export type Plot = Lines | Bars;

type Raw = Record<string, unknown>;

// A plot of whatever the JSON holds; null if it is none.
export function readPlot(raw: unknown): Plot | null {
  if (!isRecord(raw)) return null;
  const marks = list(raw.marks).filter(isRecord).map(readMark);
  const y = text(raw.y);
  if (raw.kind === 'bars') {
    const values = list(raw.values).filter(isRecord).map(readBar);
    return { kind: 'bars', y, values, marks };
  }
  if (raw.kind !== 'lines') return null;
  return {
    kind: 'lines',
    x: text(raw.x),
    y,
    xLog: raw.x_log === true,
    yLog: raw.y_log === true,
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
  return { name: text(raw.name), points };
}

function readBar(raw: Raw): Bar {
  return {
    name: text(raw.name),
    value: readNumber(raw.value),
    low: end(raw.low),
    high: end(raw.high),
  };
}

function readMark(raw: Raw): Mark {
  return { label: text(raw.label), x: end(raw.x), y: end(raw.y) };
}

// JSON has no infinity: those are texts.
export function readNumber(raw: unknown): number {
  if (typeof raw === 'number') return raw;
  return raw === 'inf' ? Infinity : raw === '-inf' ? -Infinity : NaN;
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

// The same numbers as a table: a row for each point or bar.
export function tableOf(plot: Plot, title: string): Table {
  if (plot.kind === 'bars') {
    const rows = plot.values.map((bar) => [bar.name, bar.value, bar.low ?? '', bar.high ?? '']);
    return trimmed({ title, header: ['name', plot.y, 'from', 'to'], rows });
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
