import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { requestUrl, RequestError, ConnectionError, type Event } from './api';
import { LiveConnection, type ConnectionListener, type OpenStream } from './live-connection';
import { Metrics } from './metrics-store';

type StreamEvent = Event<'GET /api/events'>;
type ScriptItem = StreamEvent | Error | 'wait' | 'comment';
let openedUrls: string[];
let states: string[];
let lists: boolean[];
let metrics: Metrics;
let script: ScriptItem[][]; // what each connection sends

beforeEach(() => {
  vi.useFakeTimers();
  [openedUrls, states, lists, metrics, script] = [[], [], [], new Metrics(), []];
});
afterEach(() => {
  vi.useRealTimers();
});

const rows = (after: number, next: number): StreamEvent => ({
  name: 'metrics',
  data: {
    run: 'a',
    after,
    next,
    rows: Array.from({ length: next - after }, (_, i) => ({ step: after + i + 1, loss: 1 })),
    mark: '',
    total: next,
    again: false,
  },
});

const open: OpenStream = async function* (endpoint, { query = {}, signal }, onActivity = () => undefined) {
  openedUrls.push(decodeURIComponent(requestUrl(endpoint, {}, query)));
  for (const item of script.shift() ?? ['wait' as const]) {
    if (item instanceof Error) throw item;
    if (item === 'wait')
      await new Promise((_, reject) => signal?.addEventListener('abort', () => reject(new Error('ended'))));
    onActivity();
    if (typeof item !== 'string') yield item;
  }
};

const listener: ConnectionListener = {
  mark: (run) => metrics.mark(run),
  onMetrics: (part) => void metrics.add(part),
  onRuns: (_, all) => lists.push(all),
  onState: (state) => states.push(state),
};
const steps = (): number[] => metrics.of('a')?.axes.step ?? [];

test('after a lost connection it continues after the last received row', async () => {
  script = [[rows(0, 3), new ConnectionError('gone')], [new ConnectionError('gone')], [rows(3, 5), 'wait']];
  new LiveConnection(listener, open).watch(['a']);
  await vi.advanceTimersByTimeAsync(5000);
  expect(openedUrls).toEqual(['GET /api/events?run=a:0', 'GET /api/events?run=a:3', 'GET /api/events?run=a:3']);
  expect(steps()).toEqual([1, 2, 3, 4, 5]);
  expect(states).toEqual(['live', 'lost', 'lost', 'live']);
});

test('it waits longer each time, and not at all after a restart', async () => {
  script = Array.from({ length: 7 }, () => [new ConnectionError('gone')]);
  const live = new LiveConnection(listener, open);
  live.watch([]);
  await vi.advanceTimersByTimeAsync(0);
  const counts: number[] = [];
  for (let i = 0; i < 5; i += 1) {
    await vi.advanceTimersByTimeAsync(1000);
    counts.push(openedUrls.length);
  }
  expect(counts).toEqual([2, 3, 3, 4, 4]); // at 0.5, 1.5, 3.5 s
  live.restart();
  expect(openedUrls.length).toBe(5);
});

test('other runs open a new connection, the same ones do not; the old one is ignored', async () => {
  script = [['comment', 'wait', rows(0, 9)], ['wait']];
  const live = new LiveConnection(listener, open);
  live.watch(['a']);
  live.watch(['a']);
  await vi.advanceTimersByTimeAsync(10);
  expect(openedUrls).toHaveLength(1);
  live.watch(['b']);
  await vi.advanceTimersByTimeAsync(60000);
  expect(openedUrls[1]).toBe('GET /api/events?run=b:0');
  expect(steps()).toEqual([]);
  expect(states[0]).toBe('live');
});

test('a silent connection is replaced', async () => {
  script = [['comment', 'wait'], [rows(0, 1), 'wait']];
  new LiveConnection(listener, open).watch(['a']);
  await vi.advanceTimersByTimeAsync(44000);
  expect(states).toEqual(['live']);
  await vi.advanceTimersByTimeAsync(2000);
  expect(states).toEqual(['live', 'lost', 'live']);
  expect(steps()).toEqual([1]);
});

test('a hidden window pauses; a rejected one does not retry', async () => {
  script = [['comment', 'wait'], [new RequestError('no', 403)]];
  const live = new LiveConnection(listener, open);
  live.watch(['a']);
  await vi.advanceTimersByTimeAsync(0);
  live.pauseWhileHidden();
  await vi.advanceTimersByTimeAsync(60000);
  expect(openedUrls).toHaveLength(1);
  expect(states).toEqual(['live', 'paused']);
  live.restart();
  await vi.advanceTimersByTimeAsync(60000);
  expect(openedUrls).toHaveLength(2);
  expect(states.at(-1)).toBe('rejected');
});

test('the first list of a connection is complete, later ones are changes', async () => {
  const runs: StreamEvent = { name: 'runs', data: { runs: [], gone: [] } };
  script = [[runs, runs, new ConnectionError('gone')], [runs, 'wait']];
  new LiveConnection(listener, open).watch([]);
  await vi.advanceTimersByTimeAsync(1000);
  expect(lists).toEqual([true, false, true]);
});
