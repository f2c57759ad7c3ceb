// Starts, follows and cancels jobs of the server, independent of the shown page. Also follows jobs
// of other windows, and those from before a reload.

import { request, RequestError, stream, errorMessage } from './api';
import type { Api, JobResponse } from './api-types';
import { hasEnded } from './api-helpers';

type JobEndpoint = 'POST /api/audit' | 'POST /api/bench' | 'POST /api/claims';

const WAITING: JobResponse = {
  id: '', kind: '', run: '', state: 'waiting', done: 0, total: 0, message: '', result: null,
}; // prettier-ignore
const POLL_PAUSE = 2000; // ms between two requests if the event stream ends early

export interface FollowedJob {
  job: JobResponse | null; // null until the server accepts it
  failure: string;
}

export class JobFollower {
  private readonly followed = new Map<string, FollowedJob>();
  private readonly lastEnded = new Map<string, string>(); // ids of jobs

  constructor(private readonly changed: () => void) {}

  // `name` is the purpose of the job; each has one job at a time.
  of(name: string): FollowedJob | undefined {
    return this.followed.get(name);
  }

  busy(name: string): boolean {
    const followed = this.followed.get(name);
    if (followed === undefined || followed.failure) return false;
    return followed.job === null || !hasEnded(followed.job);
  }

  // The id of the last job that ended. A page that shows its result reloads it when this changes,
  // also after a cancelled job, which may have results.
  lastEndedId(name: string): string {
    return this.lastEnded.get(name) ?? '';
  }

  // Resolves when the job is done, with null if it failed or was cancelled; the page then shows why.
  async run<E extends JobEndpoint>(
    name: string,
    endpoint: E,
    body: Api[E]['body'],
  ): Promise<JobResponse | null> {
    if (this.busy(name)) return null;
    this.set(name, { job: null, failure: '' });
    return this.follow(name, async () => (await request<JobEndpoint>(endpoint, { body })).job);
  }

  // Follows running jobs that are not followed yet: the first of each name, then the next.
  async followRunning(): Promise<void> {
    let jobs: JobResponse[];
    try {
      jobs = (await request('GET /api/jobs')).jobs;
    } catch {
      return; // not needed: a job that starts here is followed anyway
    }
    for (const job of jobs) {
      const name = jobName(job);
      if (hasEnded(job) || this.busy(name)) continue;
      this.set(name, { job, failure: '' });
      void this.follow(name, () => Promise.resolve(job.id)).then(() => {
        if (!this.of(name)?.failure) void this.followRunning();
      });
    }
  }

  private async follow(name: string, start: () => Promise<string>): Promise<JobResponse | null> {
    try {
      const id = await start();
      let job = { ...WAITING, id };
      this.set(name, { job, failure: '' });
      while (!hasEnded(job)) {
        for await (job of this.states(id)) {
          this.set(name, { job, failure: '' });
          if (hasEnded(job)) break;
        }
      }
      if (job.state === 'done') return job;
      if (job.state !== 'cancelled') this.set(name, { job, failure: job.message || 'The job failed.' });
    } catch (error) {
      this.set(name, { job: null, failure: errorMessage(error) });
    }
    return null;
  }

  async cancel(name: string): Promise<void> {
    const id = this.followed.get(name)?.job?.id;
    if (!id) return;
    try {
      await request('POST /api/jobs/{id}/cancel', { path: { id } });
    } catch (error) {
      if (!(error instanceof RequestError)) this.set(name, { job: null, failure: errorMessage(error) });
    }
  }

  // The states of a job from its events, and one more request if the stream ends early.
  private async *states(id: string): AsyncGenerator<JobResponse> {
    const path = { id };
    try {
      for await (const { data } of stream('GET /api/jobs/{id}/events', { path })) yield data;
    } catch (error) {
      if (error instanceof RequestError) throw error;
    }
    await new Promise((done) => setTimeout(done, POLL_PAUSE));
    yield await request('GET /api/jobs/{id}', { path });
  }

  private set(name: string, followed: FollowedJob): void {
    this.followed.set(name, followed);
    if (followed.job && hasEnded(followed.job)) this.lastEnded.set(name, followed.job.id);
    this.changed();
  }
}

// The name under which pages follow a job.
export function jobName({ kind, run }: { kind: string; run: string }): string {
  return run ? `${kind} ${run}` : kind;
}
