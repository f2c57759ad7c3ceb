// The points of a curve: smoothed, and thinned so that every peak stays visible.

import type { Point } from '../report/plot-data';
import type { Axis, MetricColumns } from './metrics-store';

type Pair = [number, number];

// Exponential moving average with bias correction, so that it is not pulled toward 0 at the start.
export function smooth(values: number[], weight: number): number[] {
  let [mean, total] = [0, 0];
  return values.map((value) => {
    if (!Number.isFinite(value)) return value;
    mean = weight * mean + (1 - weight) * value;
    total = weight * total + (1 - weight);
    return mean / total;
  });
}

// Keeps the first, lowest, highest and last point of each column of pixels: the plot looks the same.
export function thinPoints(pairs: Pair[], columns: number, log = false): Pair[] {
  const finite = pairs.filter(([x, y]) => Number.isFinite(x) && Number.isFinite(y));
  const notFinite = pairs.filter(([x, y]) => Number.isFinite(x) && !Number.isFinite(y));
  const usable = log ? finite.filter(([x]) => x > 0) : finite;
  if (usable.length <= 4 * columns) return [...usable, ...notFinite];
  const transform = log ? Math.log : (x: number): number => x;
  let [low, high] = [Infinity, -Infinity];
  for (const [x] of usable) [low, high] = [Math.min(low, transform(x)), Math.max(high, transform(x))];
  const kept: Pair[] = [];
  let bucket: Pair[] = [];
  let current = -1;
  for (const pair of usable) {
    const column = Math.min(columns - 1, Math.floor(((transform(pair[0]) - low) / (high - low || 1)) * columns));
    if (column !== current) kept.push(...extremes(bucket));
    if (column !== current) bucket = [];
    current = column;
    bucket.push(pair);
  }
  return [...kept, ...extremes(bucket), ...notFinite];
}

function extremes(bucket: Pair[]): Pair[] {
  if (bucket.length <= 4) return bucket;
  let [lowest, highest] = [0, 0];
  bucket.forEach(([, y], i) => {
    if (y < bucket[lowest][1]) lowest = i;
    if (y > bucket[highest][1]) highest = i;
  });
  const indices = new Set([0, lowest, highest, bucket.length - 1]);
  return [...indices].sort((one, other) => one - other).map((i) => bucket[i]);
}

export interface CurveOptions {
  axis: Axis;
  smoothing: number; // 0 disables it
  columns: number;
  xLog: boolean;
}

// The points of a curve, and the raw points behind it if it is smoothed.
export function curvePoints(
  metrics: MetricColumns | undefined,
  metric: string,
  { axis, smoothing, columns, xLog }: CurveOptions,
): { points: Point[]; ghost: Point[] } {
  const column = metrics?.columns.get(metric);
  if (!metrics || !column) return { points: [], ghost: [] };
  const xs = metrics.axes[axis];
  const pointsOf = (values: number[]): Point[] =>
    thinPoints(
      values.map((value, i): Pair => [xs[column.rows[i]], value]),
      columns,
      xLog,
    ).map(([x, y]) => ({ x, y, low: null, high: null }));
  if (smoothing <= 0) return { points: pointsOf(column.values), ghost: [] };
  const ghost = pointsOf(column.values).filter(({ y }) => Number.isFinite(y));
  return { points: pointsOf(smooth(column.values, smoothing)), ghost };
}
