// Helpers for the server's responses: runs, jobs, and values that come from files.

import { readOptionalNumber, isRecord, readList, readNumber } from '../report/plot-data';
import type { JobResponse, RunSummary } from './api-types';

// A run, or a deleted one that the address still names.
export type Run = Omit<RunSummary, 'state' | 'step'> & {
  state: RunSummary['state'] | 'gone';
  step: number | null;
};

// The newest value of a metric.
export function lastValue({ last }: Run, name: string): number | null {
  return Object.hasOwn(last, name) ? readNumber(last[name]) : null;
}

export const hasEnded = ({ state }: JobResponse): boolean => !['waiting', 'running'].includes(state);

export function readRecords(raw: unknown): Record<string, unknown>[] {
  return readList(raw).filter(isRecord);
}

// A finite number, else null.
export function readFinite(raw: unknown): number | null {
  const value = readOptionalNumber(raw);
  return value !== null && Number.isFinite(value) ? value : null;
}
