// Searches, sorts and updates the list of runs.

import type { RunsEvent } from './api-types';
import { lastValue, type Run } from './api-helpers';

export const ORDERS = {
  updated: 'newest first',
  name: 'name',
  task: 'task',
  loss: 'loss',
  steps: 'steps done',
  parameters: 'parameters',
} as const;
export type Order = keyof typeof ORDERS;

// The runs that contain every word of the search.
export function searchRuns(runs: Run[], search: string): Run[] {
  const words = search.toLowerCase().split(/\s+/).filter(Boolean);
  return runs.filter(({ id, name, task, attention, state, problem }) => {
    const text = [id, name, task, attention, state, problem].join(' ').toLowerCase();
    return words.every((word) => text.includes(word));
  });
}

type SortKey = (run: Run) => number | string | null;

const KEYS: Record<Order, SortKey> = {
  updated: (run) => (run.updated === null ? null : -run.updated),
  name: (run) => run.id,
  task: (run) => run.task || null,
  loss: (run) => lastValue(run, 'loss'),
  steps: (run) => (run.step === null ? null : -run.step),
  parameters: (run) => (run.parameters === null ? null : -run.parameters),
};

// Unknown values come last; equal ones are sorted by name.
export function sortRuns(runs: Run[], order: Order): Run[] {
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

// Replaces changed runs, removes deleted ones and appends new ones.
export function updateRuns(runs: Run[], { runs: changes, gone }: RunsEvent): Run[] {
  const changed = new Map(changes.map((run) => [run.id, run]));
  const kept = runs.filter(({ id }) => !gone.includes(id)).map((run) => changed.get(run.id) ?? run);
  const keptIds = new Set(kept.map(({ id }) => id));
  return [...kept, ...changes.filter(({ id }) => !keptIds.has(id))];
}
