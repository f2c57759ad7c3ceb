// The same numbers for people who do not see the drawing.

import { useMemo, useState } from 'preact/hooks';
import { inCell, number } from '../text';
import type { Frame, View } from '../view';

const PART = 300; // rows at a time: a browser is slow with many

export function TableView({ view, frame, height }: { view: View; frame: Frame; height: number }) {
  const table = useMemo(() => view.table(frame), [view, frame.opened, frame.choices]);
  const [shown, setShown] = useState(PART);
  const rows = table.rows.slice(0, shown);
  const numeric = table.header.map((_, i) =>
    rows.every((row) => typeof row[i] === 'number' || row[i] === ''),
  );
  return (
    <div
      class="table"
      tabIndex={0}
      role="region"
      aria-label={table.title}
      style={{ maxHeight: `${height}px` }}
    >
      <table>
        <caption>{table.title}</caption>
        <thead>
          <tr>
            {table.header.map((name, i) => (
              <th key={i} scope="col" class={numeric[i] ? 'number' : ''}>
                {name}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row, i) => (
            <tr key={i}>
              {row.map((cell, j) => (
                <td key={j} class={numeric[j] ? 'number' : ''}>
                  {typeof cell === 'number'
                    ? Number.isInteger(cell)
                      ? cell
                      : number(cell)
                    : inCell(cell)}
                </td>
              ))}
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
