// The report that a page carries, as attnlab/bench/results.py writes it.

import { readHeatmap, type Heatmap } from '../heat';
import { end, isRecord, list, readNumber, readPlot, text, type Plot } from '../plot';

export interface Value {
  value: number;
  low: number | null;
  high: number | null;
}

export type Cell = string | number | null | Value;

export interface Table {
  kind: 'table';
  title: string;
  note: string;
  header: string[];
  rows: Cell[][];
}

export interface Drawn {
  kind: 'drawn';
  title: string;
  note: string;
  plot: Plot | Heatmap | null; // null: of a kind that this page does not know
}

export interface Section {
  name: string;
  title: string;
  findings: string[];
  advice: string[];
  settings: [string, string][];
  parts: (Table | Drawn)[];
}

export interface Report {
  versions: [string, string][];
  machine: [string, string][];
  seconds: number;
  sections: Section[];
}

type Raw = Record<string, unknown>;

export function readReport(raw: unknown): Report {
  if (!isRecord(raw) || raw.format !== 'attnlab-bench')
    throw new Error('The data of this page is no report of a bench.');
  if (raw.version !== 1)
    throw new Error(`The report has version ${String(raw.version)}; this page reads version 1.`);
  return {
    versions: pairs(raw.versions),
    machine: pairs(raw.machine),
    seconds: readNumber(raw.seconds),
    sections: list(raw.sections).filter(isRecord).map(readSection),
  };
}

function readSection(raw: Raw): Section {
  return {
    name: text(raw.name),
    title: text(raw.title),
    findings: list(raw.findings).map(text),
    advice: list(raw.advice).map(text),
    settings: pairs(raw.settings),
    parts: list(raw.parts).filter(isRecord).map(readPart),
  };
}

function readPart(raw: Raw): Table | Drawn {
  const [title, note] = [text(raw.title), text(raw.note)];
  if ('plot' in raw)
    return { kind: 'drawn', title, note, plot: readHeatmap(raw.plot) ?? readPlot(raw.plot) };
  const header = list(raw.header).map(text);
  const rows = list(raw.rows)
    .map((row) => list(row).map(readCell))
    .filter((row) => row.length === header.length);
  return { kind: 'table', title, note, header, rows };
}

function readCell(raw: unknown): Cell {
  if (isRecord(raw))
    return { value: readNumber(raw.value), low: end(raw.low), high: end(raw.high) };
  if (typeof raw === 'string') return /^-?inf$/.test(raw) ? readNumber(raw) : raw;
  return typeof raw === 'number' ? raw : null;
}

function pairs(raw: unknown): [string, string][] {
  return Object.entries(isRecord(raw) ? raw : {})
    .filter(([, value]) => value !== null)
    .map(([name, value]) => [
      name.replaceAll('_', ' '),
      Array.isArray(value) ? value.map(String).join(', ') : String(value),
    ]);
}

// For sorting: numbers by size, texts by letters, what is unknown last.
export function compare(one: Cell, other: Cell): number {
  const [a, b] = [rank(one), rank(other)];
  if (typeof a === 'number' && typeof b === 'number')
    return Number.isNaN(a) || Number.isNaN(b) ? Number(Number.isNaN(a)) - Number(Number.isNaN(b)) : a - b;
  if (typeof a === 'string' && typeof b === 'string') return a.localeCompare(b, 'en');
  return typeof a === 'number' ? -1 : 1;
}

// "1,200", "(1,200)" and "34%" are numbers too.
function rank(cell: Cell): number | string {
  if (cell === null || cell === '') return NaN;
  if (typeof cell === 'number') return cell;
  if (typeof cell === 'object') return cell.value;
  const bare = cell.replace(/[(),%]/g, '');
  if (cell === 'all') return 0;
  if (cell === 'never') return Infinity;
  return bare !== '' && Number.isFinite(Number(bare)) ? Number(bare) : cell;
}

export interface Order {
  column: number;
  down: boolean;
}

// Rows as they are given where nobody asked for an order; what is unknown stays last either way.
export function sorted(rows: Cell[][], order: Order | null): Cell[][] {
  if (!order) return rows;
  const { column, down } = order;
  const known = rows.filter((row) => row[column] !== null && row[column] !== '');
  const unknown = rows.filter((row) => row[column] === null || row[column] === '');
  const sign = down ? -1 : 1;
  return [...known.sort((one, other) => sign * compare(one[column], other[column])), ...unknown];
}
