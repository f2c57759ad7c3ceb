// Rows of metrics.jsonl as they arrive: none is lost, none is taken twice. What is kept are
// columns, since a run of days has a million rows.

import { isRecord, readNumber } from '../report/plot';
import type { MetricsResponse } from './api-types';

export const AXES = ['step', 'seconds', 'tokens'] as const;
export type Axis = (typeof AXES)[number];

export interface Column {
  rows: number[]; // which rows have it
  values: number[];
}

export interface Curves {
  lines: number; // of the file, taken so far
  mark: string;
  axes: Record<Axis, number[]>;
  columns: Map<string, Column>;
}

const COLUMNS = 64; // metrics of a run; more are left out
const NO_METRIC = new Set<string>([...AXES, 'epoch']);

export class Metrics {
  private readonly runs = new Map<string, Curves>();

  of(run: string): Curves | undefined {
    return this.runs.get(run);
  }

  lines(run: string): number {
    return this.runs.get(run)?.lines ?? 0;
  }

  // From where to go on, as the server wants it.
  place(run: string): string {
    return this.runs.get(run)?.mark || String(this.lines(run));
  }

  forget(run: string): void {
    this.runs.delete(run);
  }

  // 'gap': lines are missing between, ask for those after `lines(run)`.
  take({ run, after, rows, next, again, mark }: MetricsResponse): 'added' | 'known' | 'gap' {
    if (again) this.forget(run);
    const have = this.lines(run);
    if (next <= have && !again) return 'known';
    const whole = rows.length === next - after; // else some lines gave no row: who knows which
    if (after > have || (after < have && !whole)) return 'gap';
    const curves = this.runs.get(run) ?? empty();
    this.runs.set(run, curves);
    for (const row of rows.slice(have - after)) add(curves, row);
    curves.lines = next;
    curves.mark = mark;
    return 'added';
  }
}

function empty(): Curves {
  return { lines: 0, mark: '', axes: { step: [], seconds: [], tokens: [] }, columns: new Map() };
}

function add(curves: Curves, row: Record<string, unknown>): void {
  const at = curves.axes.step.length;
  for (const axis of AXES) curves.axes[axis].push(readNumber(row[axis]));
  for (const [name, value] of Object.entries(row)) {
    if (name === 'validation' && isRecord(value)) {
      for (const [each, found] of Object.entries(value)) put(curves, `validation ${each}`, at, found);
    } else if (!NO_METRIC.has(name)) put(curves, name, at, value);
  }
}

function put(curves: Curves, name: string, row: number, value: unknown): void {
  const odd = value === null || (typeof value === 'string' && /^-?(nan|inf)$/i.test(value));
  if (typeof value !== 'number' && !odd) return;
  let column = curves.columns.get(name);
  if (!column) {
    if (curves.columns.size >= COLUMNS) return;
    curves.columns.set(name, (column = { rows: [], values: [] }));
  }
  column.rows.push(row);
  column.values.push(readNumber(value));
}

// What is looked at first comes first: loss, what is measured on held-out data, the rest.
export function metricNames(all: (Curves | undefined)[]): string[] {
  const names = new Set(all.flatMap((curves) => [...(curves?.columns.keys() ?? [])]));
  const rank = (name: string): number =>
    name === 'loss' ? 0 : name.startsWith('validation ') ? 1 : 2;
  return [...names].sort((one, other) => rank(one) - rank(other) || one.localeCompare(other, 'en'));
}
