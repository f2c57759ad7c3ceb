// A table of numbers and texts that scrolls in its place; of a long one a part at a time.

import type { ComponentChild } from 'preact';
import { useState } from 'preact/hooks';
import type { Table } from './table';

const PART = 300; // rows at a time: a browser is slow with many

interface Props {
  table: Table;
  look: string; // class
  height?: number;
  caption?: boolean; // the title is seen
  rowNames?: boolean; // in the first column
  name: (text: string) => ComponentChild; // of a column
  cell: (value: string | number) => ComponentChild;
}

export function Grid({ table, look, height, caption, rowNames, name, cell }: Props) {
  const [shown, setShown] = useState(PART);
  const rows = table.rows.slice(0, shown);
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
            {table.header.map((each, i) => (
              <th key={i} scope="col" class={numeric[i] ? 'number' : ''}>
                {name(each)}
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
      {table.rows.length === 0 && <p class="dim">Nothing is shown with these choices.</p>}
      {table.rows.length > shown && (
        <p>
          The first {shown.toLocaleString('en')} of {table.rows.length.toLocaleString('en')} rows;
          the CSV file has all.{' '}
          <button type="button" onClick={() => setShown(shown + PART)}>
            More rows
          </button>
        </p>
      )}
    </div>
  );
}
