// One event stream: changes in the list of runs, and new metrics of the watched runs. When the
// connection is lost, it reports that, tries again, and continues where it was.

import { RequestError, stream, errorMessage, type Event } from './api';
import type { MetricsResponse, RunsEvent } from './api-types';

export type ConnectionState = 'connecting' | 'live' | 'lost' | 'rejected' | 'paused';

export interface ConnectionListener {
  mark: (run: string) => string; // the position after the last received row
  onMetrics: (part: MetricsResponse) => void;
  onRuns: (changes: RunsEvent, all: boolean) => void; // all runs, or only changed ones
  onState: (state: ConnectionState, reason: string) => void;
}

const FIRST_PAUSE = 500; // ms before the first retry; doubles each time
const LONGEST_PAUSE = 8000;
const MAX_SILENCE = 45000; // ms without data; the server sends a comment every 15 s

export type OpenStream = typeof stream<'GET /api/events'>;

export class LiveConnection {
  private runs: string[] = [];
  private running: AbortController | null = null;
  private waiting: ReturnType<typeof setTimeout> | undefined;
  private pause = FIRST_PAUSE;
  private closed = false;

  constructor(
    private readonly listener: ConnectionListener,
    private readonly open: OpenStream = stream,
  ) {}

  // Opens a new connection for other runs: its address contains the position in each.
  watch(runs: string[]): void {
    const same = runs.length === this.runs.length && runs.every((run, i) => run === this.runs[i]);
    if (same && (this.running || this.waiting)) return;
    this.runs = [...runs];
    this.restart();
  }

  // Reconnects at once, for example when the window becomes visible.
  restart(): void {
    this.stop();
    this.closed = false;
    this.pause = FIRST_PAUSE;
    void this.connect();
  }

  // A hidden window closes its connection, because a browser allows only few.
  pauseWhileHidden(): void {
    this.stop();
    this.closed = true;
    this.listener.onState('paused', '');
  }

  private stop(): void {
    this.running?.abort();
    this.running = null;
    clearTimeout(this.waiting);
    this.waiting = undefined;
  }

  private async connect(): Promise<void> {
    const controller = new AbortController();
    this.running = controller;
    const { signal } = controller;
    let silence: ReturnType<typeof setTimeout> | undefined;
    let [first, all] = [true, true];
    const onActivity = (): void => {
      clearTimeout(silence);
      silence = setTimeout(() => controller.abort(), MAX_SILENCE);
      if (!first) return;
      first = false;
      this.pause = FIRST_PAUSE;
      this.listener.onState('live', '');
    };
    let reason = 'The connection was closed.';
    let rejected = false;
    try {
      const run = this.runs.map((id) => `${id}:${this.listener.mark(id)}`);
      for await (const event of this.open('GET /api/events', { query: { run }, signal }, onActivity)) {
        if (this.running !== controller) return;
        this.handle(event, all);
        if (event.name === 'runs') all = false;
      }
    } catch (error) {
      reason = errorMessage(error);
      rejected = error instanceof RequestError && error.status === 403; // retrying is useless
    } finally {
      clearTimeout(silence);
    }
    if (this.running !== controller) return; // another connection has replaced it
    this.running = null;
    this.listener.onState(rejected ? 'rejected' : 'lost', reason);
    if (this.closed || rejected) return;
    this.waiting = setTimeout(() => {
      this.waiting = undefined;
      void this.connect();
    }, this.pause);
    this.pause = Math.min(LONGEST_PAUSE, 2 * this.pause);
  }

  private handle({ name, data }: Event<'GET /api/events'>, all: boolean): void {
    if (name === 'runs') this.listener.onRuns(data, all);
    if (name === 'metrics') this.listener.onMetrics(data);
  }
}
