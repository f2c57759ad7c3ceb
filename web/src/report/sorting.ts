// Cells of a table: their texts, and the order of rows.

import { brief, fixed } from './numbers';
import { told, type Estimate } from './plot';
import type { Table } from './report-types';

export type Cell = Table['rows'][number][number];

const SPECIAL: Record<string, number> = { Infinity, '-Infinity': -Infinity, NaN };

// Infinity and NaN are texts in JSON.
export function numberOf(cell: Cell): Cell {
  return typeof cell === 'string' && Object.hasOwn(SPECIAL, cell) ? SPECIAL[cell] : cell;
}

export function cellText(cell: Cell): string {
  const value = numberOf(cell);
  if (value === null) return '–';
  if (typeof value === 'boolean') return value ? 'yes' : 'no';
  if (typeof value === 'number') return brief(value);
  return typeof value === 'string' ? value : told(estimateOf(value), two);
}

function estimateOf({ value, low, high }: Estimate): Estimate {
  const [one, from, to] = [value, low, high].map((each) => numberOf(each) as number);
  return { value: one, low: from, high: to };
}

function two(value: number | null): string {
  return value !== null && Math.abs(value) < 1e6 ? fixed(value, 2) : brief(value);
}

// Numbers by size, texts by letters.
export function compare(one: Cell, other: Cell): number {
  const [a, b] = [rank(one), rank(other)];
  if (typeof a === 'number' && typeof b === 'number')
    return Number.isNaN(a) || Number.isNaN(b) ? Number(Number.isNaN(a)) - Number(Number.isNaN(b)) : a - b;
  if (typeof a === 'string' && typeof b === 'string') return a.localeCompare(b, 'en');
  return typeof a === 'number' ? -1 : 1;
}

// "1,200", "(1,200)" and "34%" are numbers too.
function rank(raw: Cell): number | string {
  const cell = numberOf(raw);
  if (cell === null || cell === '') return NaN;
  if (typeof cell === 'number') return cell;
  if (typeof cell === 'boolean') return Number(cell);
  if (typeof cell === 'object') return estimateOf(cell).value;
  const bare = cell.replace(/[(),%]/g, '');
  if (cell === 'all') return 0;
  if (cell === 'never') return Infinity;
  return bare !== '' && Number.isFinite(Number(bare)) ? Number(bare) : cell;
}

export interface Order {
  column: number;
  down: boolean;
}

// As given where nobody asked for an order; unknown cells stay last either way.
export function sorted(rows: Cell[][], order: Order | null): Cell[][] {
  if (!order) return rows;
  const { column, down } = order;
  const known = rows.filter((row) => row[column] !== null && row[column] !== '');
  const unknown = rows.filter((row) => row[column] === null || row[column] === '');
  const sign = down ? -1 : 1;
  return [...known.sort((one, other) => sign * compare(one[column], other[column])), ...unknown];
}
