// The state of the window: runs, metrics, jobs, and whether the connection works.

import { createContext } from 'preact';
import { useContext, useEffect, useState } from 'preact/hooks';
import { request, errorMessage } from './api';
import type { InfoResponse, MetricsResponse } from './api-types';
import { JobFollower } from './jobs';
import { updateRuns } from './run-list-data';
import { LiveConnection, type ConnectionState } from './live-connection';
import { Metrics } from './metrics-store';
import type { Run } from './api-helpers';

const RENDER_PAUSE = 200; // ms between two renderings, however fast rows arrive
const RETRY_PAUSE = 5000; // ms before a failed list is requested again

export class WindowState {
  info: InfoResponse | null = null;
  runs: Run[] | null = null;
  failure = '';
  link: { state: ConnectionState; reason: string } = { state: 'connecting', reason: '' };
  version = 0; // counts changes
  readonly metrics = new Metrics();
  readonly jobs = new JobFollower(() => this.changed());
  readonly remembered = new Map<string, unknown>(); // state of pages, until the window closes

  private readonly live: LiveConnection;
  private readonly listeners = new Set<() => void>();
  private readonly filling = new Set<string>(); // runs whose missing rows are being requested
  private rendering: ReturnType<typeof setTimeout> | undefined;

  constructor() {
    this.live = new LiveConnection({
      mark: (run) => this.metrics.mark(run),
      onMetrics: (part) => this.addMetrics(part),
      onRuns: (changes, all) => {
        this.runs = updateRuns(all ? [] : (this.runs ?? []), changes);
        this.failure = '';
        if (!this.info) void this.read();
        this.changed();
      },
      onState: (state, reason) => {
        this.link = { state, reason };
        this.changed();
      },
    });
  }

  start(): void {
    this.live.watch([]);
    document.addEventListener('visibilitychange', () => {
      if (document.hidden) this.live.pauseWhileHidden();
      else this.reconnect();
    });
    window.addEventListener('online', () => this.reconnect());
    void this.read();
    void this.jobs.followRunning();
  }

  watch(runs: string[]): void {
    this.live.watch(runs);
  }

  reconnect(): void {
    this.live.restart();
    void this.jobs.followRunning();
  }

  subscribe(listener: () => void): () => void {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  changed(): void {
    this.rendering ??= setTimeout(() => {
      this.rendering = undefined;
      this.version += 1;
      for (const listener of this.listeners) listener();
    }, RENDER_PAUSE);
  }

  private async read(): Promise<void> {
    try {
      const [info, { runs }] = await Promise.all([request('GET /api/info'), request('GET /api/runs')]);
      [this.info, this.runs] = [info, runs];
      this.failure = '';
    } catch (error) {
      this.failure = errorMessage(error);
      if (!this.info) setTimeout(() => void this.read(), RETRY_PAUSE);
    }
    this.changed();
  }

  private addMetrics(part: MetricsResponse): void {
    const result = this.metrics.add(part);
    if (result === 'gap') void this.fillGap(part.run);
    if (result === 'added') this.changed();
  }

  // Requests missing rows, part by part.
  private async fillGap(run: string): Promise<void> {
    if (this.filling.has(run)) return;
    this.filling.add(run);
    try {
      for (;;) {
        const after = this.metrics.mark(run);
        const part = await request('GET /api/metrics', { query: { run, after } });
        if (this.metrics.add(part) !== 'added') break;
        this.changed();
      }
    } catch {
      // the connection is lost: the next one continues after the last row
    } finally {
      this.filling.delete(run);
    }
  }
}

export const StudioContext = createContext<WindowState>(null as unknown as WindowState);

// Renders again when something changed.
export function useWindowState(): WindowState {
  const windowState = useContext(StudioContext);
  const [, render] = useState(0);
  useEffect(() => windowState.subscribe(() => render((n) => n + 1)), [windowState]);
  return windowState;
}

// State that outlives its page: it is still there when you come back.
export function useRemembered<T>(name: string, initial: T): [T, (next: T | ((old: T) => T)) => void] {
  const { remembered } = useContext(StudioContext);
  const [, render] = useState(0);
  const now = (): T => (remembered.has(name) ? (remembered.get(name) as T) : initial);
  const set = (next: T | ((old: T) => T)): void => {
    remembered.set(name, typeof next === 'function' ? (next as (old: T) => T)(now()) : next);
    render((n) => n + 1);
  };
  return [now(), set];
}
