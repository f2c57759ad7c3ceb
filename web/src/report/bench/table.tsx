// A table that is put in order by a press on a column's name.

import { useState } from 'preact/hooks';
import { brief } from '../heat';
import { Prose } from '../page';
import { plain } from '../prose';
import { sorted, type Cell, type Order, type Table } from './report';

export function CellTable({ table }: { table: Table }) {
  const [order, setOrder] = useState<Order | null>(null);
  const numeric = table.header.map((_, i) =>
    table.rows.every((row) => typeof row[i] !== 'string' || /^[\d.,%]*$/.test(row[i])),
  );
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
          {sorted(table.rows, order).map((row, i) => (
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
    </div>
  );
}

function sortOf(order: Order | null, column: number): 'ascending' | 'descending' | 'none' {
  if (order?.column !== column) return 'none';
  return order.down ? 'descending' : 'ascending';
}

function Shown({ cell }: { cell: Cell }) {
  if (cell === null) return <>–</>;
  if (typeof cell === 'string') return <Prose text={cell} />;
  if (typeof cell === 'number') return <>{brief(cell)}</>;
  const { value, low, high } = cell;
  return (
    <>
      {two(value)}
      {low !== null && high !== null && (
        <span class="dim small">
          {' '}
          ({two(low)} to {two(high)})
        </span>
      )}
    </>
  );
}

function two(value: number): string {
  return Number.isFinite(value) && Math.abs(value) < 1e6
    ? value.toFixed(2).replace('-', '−')
    : brief(value);
}
