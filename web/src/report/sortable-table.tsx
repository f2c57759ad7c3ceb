// A table that a click on a column name sorts.

import { useState } from 'preact/hooks';
import { FormattedText } from './page-frame';
import { plainText } from './text-format';
import type { Table } from './report-types';
import { cellText, sortRows, type Cell, type SortOrder } from './table-cells';

const ROWS_PER_PART = 300; // because browsers are slow with many rows

export function SortableTable({ table }: { table: Table }) {
  const [order, setOrder] = useState<SortOrder | null>(null);
  const numeric = table.header.map((_, i) =>
    table.rows.every(({ [i]: cell }) =>
      typeof cell === 'string' ? /^([\d.,%]*|-?Infinity|NaN)$/.test(cell) : typeof cell !== 'boolean',
    ),
  );
  const [rowCount, setRowCount] = useState(ROWS_PER_PART);
  const press = (column: number): void =>
    setOrder((old) =>
      old?.column !== column ? { column, down: false } : old.down ? null : { column, down: true },
    );
  return (
    <div class="scroll tall" tabIndex={0} role="region" aria-label={plainText(table.title)}>
      <table>
        <caption>
          <strong>
            <FormattedText text={table.title} />
          </strong>
        </caption>
        <thead>
          <tr>
            {table.header.map((name, i) => (
              <th key={i} scope="col" class={numeric[i] ? 'number' : ''} aria-sort={ariaSort(order, i)}>
                <button type="button" class="order" onClick={() => press(i)}>
                  <FormattedText text={name} />
                  <i aria-hidden="true">{order?.column === i ? (order.down ? '↓' : '↑') : ''}</i>
                </button>
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {sortRows(table.rows, order).slice(0, rowCount).map((row, i) => (
            <tr key={i}>
              {row.map((cell, j) => (
                <td key={j} class={numeric[j] ? 'number' : ''}>
                  <CellView cell={cell} />
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
      {table.rows.length > rowCount && (
        <p>
          The first {rowCount.toLocaleString('en')} of {table.rows.length.toLocaleString('en')} rows.{' '}
          <button type="button" onClick={() => setRowCount(rowCount + ROWS_PER_PART)}>
            More rows
          </button>
        </p>
      )}
    </div>
  );
}

function ariaSort(order: SortOrder | null, column: number): 'ascending' | 'descending' | 'none' {
  if (order?.column !== column) return 'none';
  return order.down ? 'descending' : 'ascending';
}

// Shows an interval in small type beside its number.
function CellView({ cell }: { cell: Cell }) {
  const text = cellText(cell);
  if (typeof cell !== 'object' || cell === null) return <FormattedText text={text} />;
  const [value, ...interval] = text.split(' ');
  return (
    <>
      {value}
      {interval.length > 0 && <span class="dim small"> {interval.join(' ')}</span>}
    </>
  );
}
