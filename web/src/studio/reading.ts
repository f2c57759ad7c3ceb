// What the pages add to the types of the server, and guards for what stood in a file.

import { end, isRecord, list, readNumber } from '../report/plot';
import type { JobResponse, Run as Listed } from './api-types';

// Also one that is gone, of which nothing is known.
export type Run = Omit<Listed, 'state' | 'step'> & {
  state: Listed['state'] | 'gone';
  step: number | null;
};

// The newest value of a metric.
export function lastOf({ last }: Run, name: string): number | null {
  return Object.hasOwn(last, name) ? readNumber(last[name]) : null;
}

export const ended = ({ state }: JobResponse): boolean => !['waiting', 'running'].includes(state);

export function records(raw: unknown): Record<string, unknown>[] {
  return list(raw).filter(isRecord);
}

// A number that is one, else null.
export function finite(raw: unknown): number | null {
  const value = end(raw);
  return value !== null && Number.isFinite(value) ? value : null;
}
