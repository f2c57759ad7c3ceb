// A scrolling table of numbers and texts. Long tables are shown part by part.

import type { ComponentChild } from 'preact';
import { useState } from 'preact/hooks';
import type { Table } from './table-type';

const ROWS_PER_PART = 300; // because browsers are slow with many rows

interface Props {
  table: Table;
  look: string; // class
  height?: number;
  caption?: boolean; // show the title
  rowNames?: boolean; // the first column has the names of rows
  name: (text: string) => ComponentChild; // renders the name of a column
  cell: (value: string | number) => ComponentChild; // renders a value
}

export function DataTable({ table, look, height, caption, rowNames, name, cell }: Props) {
  const [rowCount, setRowCount] = useState(ROWS_PER_PART);
  const rows = table.rows.slice(0, rowCount);
  const numeric = table.header.map(
    (_, i) =>
      rows.some((row) => typeof row[i] === 'number') &&
      rows.every((row) => typeof row[i] === 'number' || row[i] === ''),
  );
  return (
    <div
      class={look}
      tabIndex={0}
      role="region"
      aria-label={table.title}
      style={height === undefined ? undefined : { maxHeight: `${height}px` }}
    >
      <table>
        {caption && <caption>{table.title}</caption>}
        <thead>
          <tr>
            {table.header.map((columnName, i) => (
              <th key={i} scope="col" class={numeric[i] ? 'number' : ''}>
                {name(columnName)}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row, i) => (
            <tr key={i}>
              {row.map((value, j) =>
                rowNames && j === 0 ? (
                  <th key={j} scope="row">
                    {cell(value)}
                  </th>
                ) : (
                  <td key={j} class={numeric[j] ? 'number' : ''}>
                    {cell(value)}
                  </td>
                ),
              )}
            </tr>
          ))}
        </tbody>
      </table>
      {table.rows.length === 0 && <p class="dim">No rows match these choices.</p>}
      {table.rows.length > rowCount && (
        <p>
          The first {rowCount.toLocaleString('en')} of {table.rows.length.toLocaleString('en')} rows;
          the CSV file has all.{' '}
          <button type="button" onClick={() => setRowCount(rowCount + ROWS_PER_PART)}>
            More rows
          </button>
        </p>
      )}
    </div>
  );
}
