// Collects rows of metrics.jsonl without gaps and repetitions. Stores columns, because a long run
// has a million rows.

import { isRecord, readNumber } from '../report/plot-data';
import type { MetricsResponse } from './api-types';

export const AXES = ['step', 'seconds', 'tokens'] as const;
export type Axis = (typeof AXES)[number];

export interface Column {
  rows: number[]; // the indices of rows that have the metric
  values: number[];
}

export interface MetricColumns {
  lines: number; // of the file, read so far
  mark: string;
  axes: Record<Axis, number[]>;
  columns: Map<string, Column>;
}

const MAX_COLUMNS = 64; // metrics of a run; further ones are ignored
const NOT_METRICS = new Set<string>([...AXES, 'epoch']);

export class Metrics {
  private readonly runs = new Map<string, MetricColumns>();

  of(run: string): MetricColumns | undefined {
    return this.runs.get(run);
  }

  lines(run: string): number {
    return this.runs.get(run)?.lines ?? 0;
  }

  // The position from which to continue, in the server's format.
  mark(run: string): string {
    return this.runs.get(run)?.mark || String(this.lines(run));
  }

  forget(run: string): void {
    this.runs.delete(run);
  }

  // Returns 'gap' if lines are missing before these: request those after `lines(run)`.
  add({ run, after, rows, next, again, mark }: MetricsResponse): 'added' | 'known' | 'gap' {
    if (again) this.forget(run);
    const lines = this.lines(run);
    if (next <= lines && !again) return 'known';
    const complete = rows.length === next - after; // else some unknown lines gave no row
    if (after > lines || (after < lines && !complete)) return 'gap';
    const columns = this.runs.get(run) ?? emptyColumns();
    this.runs.set(run, columns);
    for (const row of rows.slice(lines - after)) addRow(columns, row);
    columns.lines = next;
    columns.mark = mark;
    return 'added';
  }
}

function emptyColumns(): MetricColumns {
  return { lines: 0, mark: '', axes: { step: [], seconds: [], tokens: [] }, columns: new Map() };
}

function addRow(metrics: MetricColumns, row: Record<string, unknown>): void {
  const index = metrics.axes.step.length;
  for (const axis of AXES) metrics.axes[axis].push(readNumber(row[axis]));
  for (const [name, value] of Object.entries(row)) {
    if (name === 'validation' && isRecord(value)) {
      for (const [inner, number] of Object.entries(value))
        addValue(metrics, `validation ${inner}`, index, number);
    } else if (!NOT_METRICS.has(name)) addValue(metrics, name, index, value);
  }
}

function addValue(metrics: MetricColumns, name: string, row: number, value: unknown): void {
  const special = value === null || (typeof value === 'string' && /^-?(nan|inf)$/i.test(value));
  if (typeof value !== 'number' && !special) return;
  let column = metrics.columns.get(name);
  if (!column) {
    if (metrics.columns.size >= MAX_COLUMNS) return;
    metrics.columns.set(name, (column = { rows: [], values: [] }));
  }
  column.rows.push(row);
  column.values.push(readNumber(value));
}

// The most important first: loss, metrics on held-out data, the rest.
export function metricNames(all: (MetricColumns | undefined)[]): string[] {
  const names = new Set(all.flatMap((metrics) => [...(metrics?.columns.keys() ?? [])]));
  const rank = (name: string): number =>
    name === 'loss' ? 0 : name.startsWith('validation ') ? 1 : 2;
  return [...names].sort((one, other) => rank(one) - rank(other) || one.localeCompare(other, 'en'));
}
