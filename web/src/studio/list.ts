// The list of runs: searched, put in order, and kept up to date.

import type { RunsEvent } from './api-types';
import { lastOf, type Run } from './reading';

export const ORDERS = {
  updated: 'newest first',
  name: 'name',
  task: 'task',
  loss: 'loss',
  steps: 'steps done',
  parameters: 'parameters',
} as const;
export type Order = keyof typeof ORDERS;

// Every word must be somewhere.
export function found(runs: Run[], search: string): Run[] {
  const words = search.toLowerCase().split(/\s+/).filter(Boolean);
  return runs.filter(({ id, name, task, attention, state, problem }) => {
    const where = [id, name, task, attention, state, problem].join(' ').toLowerCase();
    return words.every((word) => where.includes(word));
  });
}

type Key = (run: Run) => number | string | null;

const KEYS: Record<Order, Key> = {
  updated: (run) => (run.updated === null ? null : -run.updated),
  name: (run) => run.id,
  task: (run) => run.task || null,
  loss: (run) => lastOf(run, 'loss'),
  steps: (run) => (run.step === null ? null : -run.step),
  parameters: (run) => (run.parameters === null ? null : -run.parameters),
};

// What is unknown comes last, equals by name.
export function ordered(runs: Run[], order: Order): Run[] {
  const key = KEYS[order];
  return [...runs].sort((one, other) => compare(key(one), key(other)) || byName(one, other));
}

function compare(one: number | string | null, other: number | string | null): number {
  const unknown = (value: number | string | null): boolean =>
    value === null || Number.isNaN(value);
  if (unknown(one) || unknown(other)) return Number(unknown(one)) - Number(unknown(other));
  if (typeof one === 'number' && typeof other === 'number') return one - other;
  return String(one).localeCompare(String(other), 'en', { numeric: true });
}

const byName = (one: Run, other: Run): number =>
  one.id.localeCompare(other.id, 'en', { numeric: true });

// Entries that changed take the place of the old ones; those that are gone go.
export function renewed(runs: Run[], { runs: fresh, gone }: RunsEvent): Run[] {
  const changed = new Map(fresh.map((run) => [run.id, run]));
  const kept = runs.filter(({ id }) => !gone.includes(id)).map((run) => changed.get(run.id) ?? run);
  const known = new Set(kept.map(({ id }) => id));
  return [...kept, ...fresh.filter(({ id }) => !known.has(id))];
}
