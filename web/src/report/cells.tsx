// A table that is put in order by a press on a column's name.

import { useState } from 'preact/hooks';
import { Prose } from './page';
import { plain } from './prose';
import type { Table } from './report-types';
import { cellText, sorted, type Cell, type Order } from './sorting';

const PART = 300; // rows at a time: a browser is slow with many

export function CellTable({ table }: { table: Table }) {
  const [order, setOrder] = useState<Order | null>(null);
  const numeric = table.header.map((_, i) =>
    table.rows.every(({ [i]: cell }) =>
      typeof cell === 'string' ? /^([\d.,%]*|-?Infinity|NaN)$/.test(cell) : typeof cell !== 'boolean',
    ),
  );
  const [most, setMost] = useState(PART);
  const press = (column: number): void =>
    setOrder((old) =>
      old?.column !== column ? { column, down: false } : old.down ? null : { column, down: true },
    );
  return (
    <div class="scroll tall" tabIndex={0} role="region" aria-label={plain(table.title)}>
      <table>
        <caption>
          <strong>
            <Prose text={table.title} />
          </strong>
        </caption>
        <thead>
          <tr>
            {table.header.map((name, i) => (
              <th key={i} scope="col" class={numeric[i] ? 'number' : ''} aria-sort={sortOf(order, i)}>
                <button type="button" class="order" onClick={() => press(i)}>
                  <Prose text={name} />
                  <i aria-hidden="true">{order?.column === i ? (order.down ? '↓' : '↑') : ''}</i>
                </button>
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {sorted(table.rows, order).slice(0, most).map((row, i) => (
            <tr key={i}>
              {row.map((cell, j) => (
                <td key={j} class={numeric[j] ? 'number' : ''}>
                  <Shown cell={cell} />
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
      {table.rows.length > most && (
        <p>
          The first {most.toLocaleString('en')} of {table.rows.length.toLocaleString('en')} rows.{' '}
          <button type="button" onClick={() => setMost(most + PART)}>
            More rows
          </button>
        </p>
      )}
    </div>
  );
}

function sortOf(order: Order | null, column: number): 'ascending' | 'descending' | 'none' {
  if (order?.column !== column) return 'none';
  return order.down ? 'descending' : 'ascending';
}

// An interval is set small beside its number.
function Shown({ cell }: { cell: Cell }) {
  const text = cellText(cell);
  if (typeof cell !== 'object' || cell === null) return <Prose text={text} />;
  const [value, ...interval] = text.split(' ');
  return (
    <>
      {value}
      {interval.length > 0 && <span class="dim small"> {interval.join(' ')}</span>}
    </>
  );
}
