// Work that the server does meanwhile: begun, followed wherever the reader is, cancelled. What
// another window began, or this one before it was read anew, is followed too.

import { ask, Refused, stream, told } from './api';
import type { Api, JobResponse } from './api-types';
import { ended } from './reading';

type Begins = 'POST /api/audit' | 'POST /api/bench' | 'POST /api/claims';

const WAITING: JobResponse = {
  id: '', kind: '', about: '', state: 'waiting', done: 0, of: 0, message: '', result: null,
}; // prettier-ignore
const POLL = 2000; // ms between two questions where events do not come through

export interface Followed {
  job: JobResponse | null; // null: not accepted yet
  failure: string;
}

export class Jobs {
  private readonly all = new Map<string, Followed>();
  private readonly last = new Map<string, string>(); // the id of the last that ended

  constructor(private readonly changed: () => void) {}

  // `name` says what it is for: of each there is one at a time.
  of(name: string): Followed | undefined {
    return this.all.get(name);
  }

  busy(name: string): boolean {
    const found = this.all.get(name);
    return found !== undefined && !found.failure && (found.job === null || !ended(found.job));
  }

  // Which of them was the last to end: who shows its result reads it anew when this changes, also
  // a page that was left and opened again meanwhile. One that was cancelled may have some.
  ended(name: string): string {
    return this.last.get(name) ?? '';
  }

  // Resolves when it is done; null where it failed or was cancelled, which is then shown.
  async run<E extends Begins>(
    name: string,
    endpoint: E,
    body: Api[E]['body'],
  ): Promise<JobResponse | null> {
    if (this.busy(name)) return null;
    this.set(name, { job: null, failure: '' });
    return this.follow(name, async () => (await ask<Begins>(endpoint, { body })).job);
  }

  // Follows what is under way and is not followed yet: of each name the first, then the next.
  async takeUp(): Promise<void> {
    let found: JobResponse[];
    try {
      found = (await ask('GET /api/jobs')).jobs;
    } catch {
      return; // only a help: who begins a job hears of it
    }
    for (const job of found) {
      const name = nameOf(job);
      if (ended(job) || this.busy(name)) continue;
      this.set(name, { job, failure: '' });
      void this.follow(name, () => Promise.resolve(job.id)).then(() => {
        if (!this.of(name)?.failure) void this.takeUp();
      });
    }
  }

  private async follow(name: string, begin: () => Promise<string>): Promise<JobResponse | null> {
    try {
      const id = await begin();
      let job = { ...WAITING, id };
      this.set(name, { job, failure: '' });
      while (!ended(job)) {
        for await (job of this.heard(id)) {
          this.set(name, { job, failure: '' });
          if (ended(job)) break;
        }
      }
      if (job.state === 'done') return job;
      if (job.state !== 'cancelled') this.set(name, { job, failure: job.message || 'It failed.' });
    } catch (error) {
      this.set(name, { job: null, failure: told(error) });
    }
    return null;
  }

  async cancel(name: string): Promise<void> {
    const id = this.all.get(name)?.job?.id;
    if (!id) return;
    try {
      await ask('DELETE /api/jobs/{id}', { path: { id } });
    } catch (error) {
      if (!(error instanceof Refused)) this.set(name, { job: null, failure: told(error) });
    }
  }

  // Its states, by events; once more by asking where the stream ends too early.
  private async *heard(id: string): AsyncGenerator<JobResponse> {
    const path = { id };
    try {
      for await (const { data } of stream('GET /api/jobs/{id}/events', { path })) yield data;
    } catch (error) {
      if (error instanceof Refused) throw error;
    }
    await new Promise((done) => setTimeout(done, POLL));
    yield await ask('GET /api/jobs/{id}', { path });
  }

  private set(name: string, followed: Followed): void {
    this.all.set(name, followed);
    if (followed.job && ended(followed.job)) this.last.set(name, followed.job.id);
    this.changed();
  }
}

// As the pages call it.
export function nameOf({ kind, about }: { kind: string; about: string }): string {
  return about ? `${kind} ${about}` : kind;
}
