import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { addressOf, Refused, Silent, type Event } from './api';
import { Live, type Hearer, type Open } from './live';
import { Metrics } from './metrics';

type Heard = Event<'GET /api/events'>;
type Piece = Heard | Error | 'wait' | 'awake';
let opened: string[];
let states: string[];
let lists: boolean[];
let metrics: Metrics;
let script: Piece[][]; // what each connection says, one after the other

beforeEach(() => {
  vi.useFakeTimers();
  [opened, states, lists, metrics, script] = [[], [], [], new Metrics(), []];
});
afterEach(() => {
  vi.useRealTimers();
});

const rows = (after: number, next: number): Heard => ({
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

const open: Open = async function* (endpoint, { query = {}, signal }, alive = () => undefined) {
  opened.push(decodeURIComponent(addressOf(endpoint, {}, query)));
  for (const piece of script.shift() ?? ['wait' as const]) {
    if (piece instanceof Error) throw piece;
    if (piece === 'wait')
      await new Promise((_, reject) => signal?.addEventListener('abort', () => reject(new Error('ended'))));
    alive();
    if (typeof piece !== 'string') yield piece;
  }
};

const hearer: Hearer = {
  place: (run) => metrics.place(run),
  arrived: (part) => void metrics.take(part),
  runs: (_, all) => lists.push(all),
  state: (state) => states.push(state),
};
const steps = (): number[] => metrics.of('a')?.axes.step ?? [];

test('after a loss it goes on behind the last row that was taken', async () => {
  script = [[rows(0, 3), new Silent('gone')], [new Silent('gone')], [rows(3, 5), 'wait']];
  new Live(hearer, open).watch(['a']);
  await vi.advanceTimersByTimeAsync(5000);
  expect(opened).toEqual(['GET /api/events?run=a:0', 'GET /api/events?run=a:3', 'GET /api/events?run=a:3']);
  expect(steps()).toEqual([1, 2, 3, 4, 5]);
  expect(states).toEqual(['live', 'lost', 'lost', 'live']);
});

test('it waits longer each time, and not at all once it heard something', async () => {
  script = Array.from({ length: 7 }, () => [new Silent('gone')]);
  const live = new Live(hearer, open);
  live.watch([]);
  await vi.advanceTimersByTimeAsync(0);
  const counts: number[] = [];
  for (let i = 0; i < 5; i += 1) {
    await vi.advanceTimersByTimeAsync(1000);
    counts.push(opened.length);
  }
  expect(counts).toEqual([2, 3, 3, 4, 4]); // at 0.5, 1.5, 3.5 s
  live.restart();
  expect(opened.length).toBe(5);
});

test('another choice opens another connection, the same one does not; the old one is not heard', async () => {
  script = [['awake', 'wait', rows(0, 9)], ['wait']];
  const live = new Live(hearer, open);
  live.watch(['a']);
  live.watch(['a']);
  await vi.advanceTimersByTimeAsync(10);
  expect(opened).toHaveLength(1);
  live.watch(['b']);
  await vi.advanceTimersByTimeAsync(60000);
  expect(opened[1]).toBe('GET /api/events?run=b:0');
  expect(steps()).toEqual([]);
  expect(states[0]).toBe('live');
});

test('a connection without a sign of life is given up', async () => {
  script = [['awake', 'wait'], [rows(0, 1), 'wait']];
  new Live(hearer, open).watch(['a']);
  await vi.advanceTimersByTimeAsync(44000);
  expect(states).toEqual(['live']);
  await vi.advanceTimersByTimeAsync(2000);
  expect(states).toEqual(['live', 'lost', 'live']);
  expect(steps()).toEqual([1]);
});

test('a window that nobody sees rests; one that is refused does not try again', async () => {
  script = [['awake', 'wait'], [new Refused('no', 403)]];
  const live = new Live(hearer, open);
  live.watch(['a']);
  await vi.advanceTimersByTimeAsync(0);
  live.rest();
  await vi.advanceTimersByTimeAsync(60000);
  expect(opened).toHaveLength(1);
  expect(states).toEqual(['live', 'resting']);
  live.restart();
  await vi.advanceTimersByTimeAsync(60000);
  expect(opened).toHaveLength(2);
  expect(states.at(-1)).toBe('refused');
});

test('the first list of a connection is whole, later ones are changes', async () => {
  const runs: Heard = { name: 'runs', data: { runs: [], gone: [] } };
  script = [[runs, runs, new Silent('gone')], [runs, 'wait']];
  new Live(hearer, open).watch([]);
  await vi.advanceTimersByTimeAsync(1000);
  expect(lists).toEqual([true, false, true]);
});
