// The table view: the same numbers as the drawing, readable for screen readers.

import { useMemo } from 'preact/hooks';
import { inCell, number } from '../../shared/readable-text';
import type { Frame, View } from '../view';
import { DataTable } from '../../shared/data-table';

export function TableView({ view, frame, height }: { view: View; frame: Frame; height: number }) {
  const table = useMemo(() => view.table(frame), [view, frame.capture, frame.choices]);
  return (
    <DataTable
      look="table"
      caption
      {...{ table, height }}
      name={(text) => text}
      cell={(value) =>
        typeof value !== 'number' ? inCell(value) : Number.isInteger(value) ? value : number(value)
      }
    />
  );
}
