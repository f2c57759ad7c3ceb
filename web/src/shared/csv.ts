// A table as CSV that a spreadsheet opens without running anything in it.

import type { Table } from './table';

const LONGEST = 1000; // characters of a cell: a long token stands in many

export function csv(table: Table, longest = LONGEST): string {
  const rows = [table.header, ...table.rows];
  return rows.map((row) => row.map((each) => cell(each, longest)).join(',')).join('\r\n') + '\r\n';
}

function cell(value: string | number, longest: number): string {
  if (typeof value === 'number') return Number.isFinite(value) ? String(value) : '';
  const shown = (value.length > longest ? `${value.slice(0, longest)}…` : value).replace(
    /[\u0000-\u0008\u000b\u000c\u000e-\u001f]/g,
    (each) => String.fromCharCode(0x2400 + each.charCodeAt(0)),
  );
  // what a spreadsheet would take for a formula gets an apostrophe, which it takes for "text"
  const safe = /^[\s\u200b-\u200f\ufeff]*[=+\-@\t\r\uff1d\uff0b\uff0d\uff20|%]/.test(shown)
    ? `'${shown}`
    : shown;
  return /[",\r\n']|^\s|\s$/.test(safe) ? `"${safe.replace(/"/g, '""')}"` : safe;
}
