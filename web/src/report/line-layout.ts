// The positions of everything in a line plot of a given size.

import { area, line } from 'd3-shape';
import type { Lines, Mark, Point, Series } from './plot-data';
import { isDrawable, createScale, createTicks, type Scale, type Tick } from './scales';
import type { FigureOptions } from './figure-options';

export interface Line {
  index: number; // among all series
  pen: number; // color and dash
  series: Series;
  points: Point[]; // that can be drawn
  path: string;
  band: string;
  whiskers: string;
  ghost: string;
}

export interface Layout {
  frame: { left: number; right: number; top: number; bottom: number };
  x: Scale;
  y: Scale;
  xTicks: Tick[];
  yTicks: Tick[];
  lines: Line[];
  marks: Mark[]; // with positions in pixels
  stops: number[]; // all x values of points
  skipped: number; // points that cannot be drawn
}

const LETTER_WIDTH = 7; // pixels
const CAP = 3; // half the width of an error bar's cap

export function linesLayout(plot: Lines, options: FigureOptions, width: number, height: number): Layout {
  const xLog = options.xLog ?? plot.xLog;
  const yLog = options.yLog ?? plot.yLog;
  const fits = ({ x, y }: Point): boolean => isDrawable(x, xLog) && isDrawable(y, yLog);
  const visible = plot.series
    .map((series, index) => ({ series, index, pen: series.pen ?? index }))
    .filter(({ index }) => !options.hidden.includes(index))
    .map((line) => ({
      ...line,
      points: line.series.points.filter(fits),
      ghost: (line.series.ghost ?? []).filter(fits),
    }));
  const points = visible.flatMap((each) => each.points);
  const all = [...points, ...visible.flatMap(({ ghost }) => ghost)];
  const marks = plot.marks.filter(
    ({ x, y }) => (x === null || isDrawable(x, xLog)) && (y === null || isDrawable(y, yLog)),
  );
  const xs = [...all.map(({ x }) => x), ...marks.flatMap(({ x }) => x ?? [])];
  const ys = [...all, ...marks.map(({ y }) => ({ y, low: null, high: null }))]
    .flatMap(({ y, low, high }) => [y, low, high])
    .filter((value) => isDrawable(value, yLog));
  const [bottom, top] = [height - 26, 12];
  const y = createScale(ys, [bottom, top], yLog, 0.06);
  const yTicks = createTicks(y, yLog, Math.max(2, Math.round(height / 45)), plot.yPercent);
  const widest = Math.max(1, ...yTicks.map((each) => each.text.length));
  const [left, right] = [widest * LETTER_WIDTH + 10, width - 14];
  const x = createScale(xs, [left, right], xLog, 0.02);
  return {
    frame: { left, right, top, bottom },
    x,
    y,
    xTicks: createTicks(x, xLog, Math.max(2, Math.floor((right - left) / 64)), plot.xPercent),
    yTicks,
    lines: visible.map((line) => ({ ...line, ...linePaths(line, x, y, yLog) })),
    marks: marks.map((mark) => ({
      label: mark.label,
      x: mark.x === null ? null : x(mark.x),
      y: mark.y === null ? null : y(mark.y),
    })),
    stops: [...new Set(points.map((point) => point.x))].sort((one, other) => one - other),
    skipped: visible.reduce((sum, { series }) => sum + series.points.length, 0) - points.length,
  };
}

type DrawableSeries = { series: Series; points: Point[]; ghost: Point[] };
type Paths = Pick<Line, 'path' | 'band' | 'whiskers' | 'ghost'>;

// On a logarithmic axis, an interval that reaches 0 ends at the bottom.
function linePaths({ series, points, ghost }: DrawableSeries, x: Scale, y: Scale, yLog: boolean): Paths {
  const across = (point: Point): number => x(point.x);
  const low = (point: Point): number => (isDrawable(point.low, yLog) ? y(point.low) : y.range()[0]);
  const curve = line<Point>().digits(2).x(across).y((point) => y(point.y)); // prettier-ignore
  const known = points.filter(({ low: from, high }) => isDrawable(from, false) && isDrawable(high, yLog));
  const bars = series.errorBars ?? false;
  const band = area<Point>().digits(2).x(across).y0(low).y1((point) => y(point.high!)); // prettier-ignore
  const whisker = (point: Point): string => {
    const [at, from, to] = [across(point), low(point), y(point.high!)].map((each) => each.toFixed(2));
    const cap = `h${2 * CAP}m${-CAP} 0`;
    return `M${at} ${from}m${-CAP} 0${cap}V${to}m${-CAP} 0${cap}`;
  };
  return {
    path: curve(points) ?? '',
    band: !bars && known.length > 1 ? (band(known) ?? '') : '',
    whiskers: bars ? known.map(whisker).join('') : '',
    ghost: curve(ghost) ?? '',
  };
}

// The points at x, or with `nearest` the nearest one.
export function pointsAt(points: Point[], at: number, nearest = false): Point[] {
  const here = points.filter((point) => point.x === at);
  if (here.length || !nearest) return here;
  let best: Point | null = null;
  for (const point of points)
    if (Number.isFinite(point.y) && (!best || Math.abs(point.x - at) < Math.abs(best.x - at)))
      best = point;
  return best ? [best] : [];
}

// The index of the stop nearest on the screen; -1 without stops.
export function nearestStop({ stops, x }: Layout, at: number): number {
  let best = -1;
  stops.forEach((stop, i) => {
    if (best < 0 || Math.abs(x(stop) - at) < Math.abs(x(stops[best]) - at)) best = i;
  });
  return best;
}
