// Writes a table as CSV, safe to open in a spreadsheet.

import type { Table } from './table-type';

const MAX_CELL_LENGTH = 1000; // characters: a long token may occur in many cells

export function toCsv(table: Table, maxLength = MAX_CELL_LENGTH): string {
  const rows = [table.header, ...table.rows];
  return rows.map((row) => row.map((value) => formatCell(value, maxLength)).join(',')).join('\r\n') + '\r\n';
}

function formatCell(value: string | number, maxLength: number): string {
  if (typeof value === 'number') return Number.isFinite(value) ? String(value) : '';
  const text = (value.length > maxLength ? `${value.slice(0, maxLength)}…` : value).replace(
    /[\u0000-\u0008\u000b\u000c\u000e-\u001f]/g,
    (control) => String.fromCharCode(0x2400 + control.charCodeAt(0)),
  );
  // an apostrophe keeps a spreadsheet from reading the text as a formula
  const safe = /^[\s\u200b-\u200f\ufeff]*[=+\-@\t\r\uff1d\uff0b\uff0d\uff20|%]/.test(text)
    ? `'${text}`
    : text;
  return /[",\r\n']|^\s|\s$/.test(safe) ? `"${safe.replace(/"/g, '""')}"` : safe;
}
