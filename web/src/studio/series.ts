// From columns to lines on a screen: smoothed, and thinned so that every peak is still seen.

import type { Point } from '../report/plot';
import type { Axis, Curves } from './metrics';

type Pair = [number, number];

// The mean of what came before, younger values counting more; not drawn toward 0 at its start.
export function smooth(values: number[], weight: number): number[] {
  let [mean, total] = [0, 0];
  return values.map((value) => {
    if (!Number.isFinite(value)) return value;
    mean = weight * mean + (1 - weight) * value;
    total = weight * total + (1 - weight);
    return mean / total;
  });
}

// Of each column of pixels the first, lowest, highest and last point: the same picture.
export function thin(pairs: Pair[], columns: number, log = false): Pair[] {
  const finite = pairs.filter(([x, y]) => Number.isFinite(x) && Number.isFinite(y));
  const odd = pairs.filter(([x, y]) => Number.isFinite(x) && !Number.isFinite(y));
  const usable = log ? finite.filter(([x]) => x > 0) : finite;
  if (usable.length <= 4 * columns) return [...usable, ...odd];
  const turn = log ? Math.log : (x: number): number => x;
  let [low, high] = [Infinity, -Infinity];
  for (const [x] of usable) [low, high] = [Math.min(low, turn(x)), Math.max(high, turn(x))];
  const kept: Pair[] = [];
  let bucket: Pair[] = [];
  let at = -1;
  for (const pair of usable) {
    const column = Math.min(columns - 1, Math.floor(((turn(pair[0]) - low) / (high - low || 1)) * columns));
    if (column !== at) kept.push(...corners(bucket));
    if (column !== at) bucket = [];
    at = column;
    bucket.push(pair);
  }
  return [...kept, ...corners(bucket), ...odd];
}

function corners(bucket: Pair[]): Pair[] {
  if (bucket.length <= 4) return bucket;
  let [least, most] = [0, 0];
  bucket.forEach(([, y], i) => {
    if (y < bucket[least][1]) least = i;
    if (y > bucket[most][1]) most = i;
  });
  const places = new Set([0, least, most, bucket.length - 1]);
  return [...places].sort((one, other) => one - other).map((i) => bucket[i]);
}

export interface How {
  axis: Axis;
  smoothing: number; // 0: as it is
  columns: number;
  xLog: boolean;
}

// One line, and the raw values behind it where it is smoothed.
export function lineOf(
  curves: Curves | undefined,
  metric: string,
  { axis, smoothing, columns, xLog }: How,
): { points: Point[]; ghost: Point[] } {
  const column = curves?.columns.get(metric);
  if (!curves || !column) return { points: [], ghost: [] };
  const xs = curves.axes[axis];
  const place = (values: number[]): Point[] =>
    thin(
      values.map((value, i): Pair => [xs[column.rows[i]], value]),
      columns,
      xLog,
    ).map(([x, y]) => ({ x, y, low: null, high: null }));
  if (smoothing <= 0) return { points: place(column.values), ghost: [] };
  const ghost = place(column.values).filter(({ y }) => Number.isFinite(y));
  return { points: place(smooth(column.values, smoothing)), ghost };
}
