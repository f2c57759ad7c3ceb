// One connection that stays: what changes in the list of runs, and new rows of those that are
// watched. When it is lost it says so, tries again, and goes on where it was.

import { Refused, stream, told, type Event } from './api';
import type { MetricsResponse, RunsEvent } from './api-types';

export type State = 'begun' | 'live' | 'lost' | 'refused' | 'resting';

export interface Hearer {
  place: (run: string) => string; // behind what was taken so far
  arrived: (part: MetricsResponse) => void;
  runs: (changes: RunsEvent, all: boolean) => void; // all of them, or those that changed
  state: (state: State, why: string) => void;
}

const FIRST = 500; // ms until the next try; each takes twice as long
const LONGEST = 8000;
const SILENCE = 45000; // ms without a sign of life; the server says something every 15 s

export type Open = typeof stream<'GET /api/events'>;

export class Live {
  private runs: string[] = [];
  private running: AbortController | null = null;
  private waiting: ReturnType<typeof setTimeout> | undefined;
  private pause = FIRST;
  private closed = false;

  constructor(
    private readonly hearer: Hearer,
    private readonly open: Open = stream,
  ) {}

  // Another choice is another connection: the address says where each run goes on.
  watch(runs: string[]): void {
    const same = runs.length === this.runs.length && runs.every((run, i) => run === this.runs[i]);
    if (same && (this.running || this.waiting)) return;
    this.runs = [...runs];
    this.restart();
  }

  // At once, as when someone comes back to the window.
  restart(): void {
    this.stop();
    this.closed = false;
    this.pause = FIRST;
    void this.listen();
  }

  // A window that nobody sees keeps no connection: a browser has few.
  rest(): void {
    this.stop();
    this.closed = true;
    this.hearer.state('resting', '');
  }

  private stop(): void {
    this.running?.abort();
    this.running = null;
    clearTimeout(this.waiting);
    this.waiting = undefined;
  }

  private async listen(): Promise<void> {
    const controller = new AbortController();
    this.running = controller;
    const { signal } = controller;
    let quiet: ReturnType<typeof setTimeout> | undefined;
    let [first, all] = [true, true];
    const alive = (): void => {
      clearTimeout(quiet);
      quiet = setTimeout(() => controller.abort(), SILENCE);
      if (!first) return;
      first = false;
      this.pause = FIRST;
      this.hearer.state('live', '');
    };
    let why = 'The connection was closed.';
    let refused = false;
    try {
      const run = this.runs.map((each) => `${each}:${this.hearer.place(each)}`);
      for await (const heard of this.open('GET /api/events', { query: { run }, signal }, alive)) {
        if (this.running !== controller) return;
        this.hear(heard, all);
        if (heard.name === 'runs') all = false;
      }
    } catch (error) {
      why = told(error);
      refused = error instanceof Refused && error.status === 403; // trying is useless
    } finally {
      clearTimeout(quiet);
    }
    if (this.running !== controller) return; // another took its place
    this.running = null;
    this.hearer.state(refused ? 'refused' : 'lost', why);
    if (this.closed || refused) return;
    this.waiting = setTimeout(() => {
      this.waiting = undefined;
      void this.listen();
    }, this.pause);
    this.pause = Math.min(LONGEST, 2 * this.pause);
  }

  private hear({ name, data }: Event<'GET /api/events'>, all: boolean): void {
    if (name === 'runs') this.hearer.runs(data, all);
    if (name === 'metrics') this.hearer.arrived(data);
  }
}
