// Texts of table cells, and sorting of rows.

import { formatBrief, formatFixed } from './number-format';
import { formatEstimate, type Estimate } from './plot-data';
import type { Table } from './report-types';

export type Cell = Table['rows'][number][number];

const SPECIAL: Record<string, number> = { Infinity, '-Infinity': -Infinity, NaN };

// Infinity and NaN are texts in JSON; converts them to numbers.
export function specialNumber(cell: Cell): Cell {
  return typeof cell === 'string' && Object.hasOwn(SPECIAL, cell) ? SPECIAL[cell] : cell;
}

export function cellText(cell: Cell): string {
  const value = specialNumber(cell);
  if (value === null) return '–';
  if (typeof value === 'boolean') return value ? 'yes' : 'no';
  if (typeof value === 'number') return formatBrief(value);
  return typeof value === 'string' ? value : formatEstimate(readNumbers(value), formatTwoDecimals);
}

function readNumbers({ value, low, high }: Estimate): Estimate {
  const [one, from, to] = [value, low, high].map((each) => specialNumber(each) as number);
  return { value: one, low: from, high: to };
}

function formatTwoDecimals(value: number | null): string {
  return value !== null && Math.abs(value) < 1e6 ? formatFixed(value, 2) : formatBrief(value);
}

// Compares numbers by value, texts alphabetically.
export function compare(one: Cell, other: Cell): number {
  const [a, b] = [sortKey(one), sortKey(other)];
  if (typeof a === 'number' && typeof b === 'number')
    return Number.isNaN(a) || Number.isNaN(b) ? Number(Number.isNaN(a)) - Number(Number.isNaN(b)) : a - b;
  if (typeof a === 'string' && typeof b === 'string') return a.localeCompare(b, 'en');
  return typeof a === 'number' ? -1 : 1;
}

// "1,200", "(1,200)" and "34%" are numbers too.
function sortKey(raw: Cell): number | string {
  const cell = specialNumber(raw);
  if (cell === null || cell === '') return NaN;
  if (typeof cell === 'number') return cell;
  if (typeof cell === 'boolean') return Number(cell);
  if (typeof cell === 'object') return readNumbers(cell).value;
  const bare = cell.replace(/[(),%]/g, '');
  if (cell === 'all') return 0;
  if (cell === 'never') return Infinity;
  return bare !== '' && Number.isFinite(Number(bare)) ? Number(bare) : cell;
}

export interface SortOrder {
  column: number;
  down: boolean;
}

// Without an order, the rows stay as they are; empty cells always come last.
export function sortRows(rows: Cell[][], order: SortOrder | null): Cell[][] {
  if (!order) return rows;
  const { column, down } = order;
  const filled = rows.filter((row) => row[column] !== null && row[column] !== '');
  const empty = rows.filter((row) => row[column] === null || row[column] === '');
  const sign = down ? -1 : 1;
  return [...filled.sort((one, other) => sign * compare(one[column], other[column])), ...empty];
}
