// What the window knows of the studio: runs, rows, and whether the connection lives.

import { createContext } from 'preact';
import { useContext, useEffect, useState } from 'preact/hooks';
import { ask, told } from './api';
import type { InfoResponse, MetricsResponse } from './api-types';
import { Jobs } from './jobs';
import { renewed } from './list';
import { Live, type State } from './live';
import { Metrics } from './metrics';
import type { Run } from './reading';

const DRAWN = 200; // ms between two drawings, however fast rows come
const SLOW = 5000; // ms until a list that could not be read is asked for again

export class Client {
  info: InfoResponse | null = null;
  runs: Run[] | null = null;
  failure = '';
  link: { state: State; why: string } = { state: 'begun', why: '' };
  version = 0; // counts changes
  readonly metrics = new Metrics();
  readonly jobs = new Jobs(() => this.changed());
  readonly kept = new Map<string, unknown>(); // what pages remember until the window closes

  private readonly live: Live;
  private readonly hearers = new Set<() => void>();
  private readonly closing = new Set<string>(); // runs whose gap is being closed
  private later: ReturnType<typeof setTimeout> | undefined;

  constructor() {
    this.live = new Live({
      place: (run) => this.metrics.place(run),
      arrived: (part) => this.arrived(part),
      runs: (changes, all) => {
        this.runs = renewed(all ? [] : (this.runs ?? []), changes);
        this.failure = '';
        if (!this.info) void this.read();
        this.changed();
      },
      state: (state, why) => {
        this.link = { state, why };
        this.changed();
      },
    });
  }

  begin(): void {
    this.live.watch([]);
    document.addEventListener('visibilitychange', () => {
      if (document.hidden) this.live.rest();
      else this.again();
    });
    window.addEventListener('online', () => this.again());
    void this.read();
    void this.jobs.takeUp();
  }

  watch(runs: string[]): void {
    this.live.watch(runs);
  }

  again(): void {
    this.live.restart();
    void this.jobs.takeUp();
  }

  subscribe(hearer: () => void): () => void {
    this.hearers.add(hearer);
    return () => this.hearers.delete(hearer);
  }

  changed(): void {
    this.later ??= setTimeout(() => {
      this.later = undefined;
      this.version += 1;
      for (const hear of this.hearers) hear();
    }, DRAWN);
  }

  private async read(): Promise<void> {
    try {
      const [info, { runs }] = await Promise.all([ask('GET /api/info'), ask('GET /api/runs')]);
      [this.info, this.runs] = [info, runs];
      this.failure = '';
    } catch (error) {
      this.failure = told(error);
      if (!this.info) setTimeout(() => void this.read(), SLOW);
    }
    this.changed();
  }

  private arrived(part: MetricsResponse): void {
    const taken = this.metrics.take(part);
    if (taken === 'gap') void this.close(part.run);
    if (taken === 'added') this.changed();
  }

  // Asks for what is missing, part by part.
  private async close(run: string): Promise<void> {
    if (this.closing.has(run)) return;
    this.closing.add(run);
    try {
      for (;;) {
        const after = this.metrics.place(run);
        const part = await ask('GET /api/metrics', { query: { run, after } });
        if (this.metrics.take(part) !== 'added') break;
        this.changed();
      }
    } catch {
      // the connection is lost: the next one begins behind the last row
    } finally {
      this.closing.delete(run);
    }
  }
}

export const Studio = createContext<Client>(null as unknown as Client);

// Draws again when something changed.
export function useClient(): Client {
  const client = useContext(Studio);
  const [, draw] = useState(0);
  useEffect(() => client.subscribe(() => draw((n) => n + 1)), [client]);
  return client;
}

// State that outlives its page: who comes back finds what was there.
export function useKept<T>(name: string, given: T): [T, (next: T | ((old: T) => T)) => void] {
  const { kept } = useContext(Studio);
  const [, draw] = useState(0);
  const now = (): T => (kept.has(name) ? (kept.get(name) as T) : given);
  const set = (next: T | ((old: T) => T)): void => {
    kept.set(name, typeof next === 'function' ? (next as (old: T) => T)(now()) : next);
    draw((n) => n + 1);
  };
  return [now(), set];
}
