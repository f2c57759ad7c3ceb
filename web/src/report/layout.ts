// Where everything of a line plot lies, for a width and a height. Pure, so that it can be tested.

import { drawable, extent, placeOn, roomy, ticksOf, type Axis, type Tick } from './numbers';
import type { Lines, Mark, Point } from './plot';
import type { Shown } from './shown';

export interface Dot {
  point: Point;
  at: [number, number];
}

export interface Line {
  index: number; // among all series
  pen: number; // colour and dash
  literal: boolean;
  name: string;
  path: string;
  band: string;
  dots: Dot[];
  area: [number, number][]; // of the band
  ghost: [number, number][];
}

export interface PlacedMark {
  label: string;
  x: number | null;
  y: number | null;
}

export interface Layout {
  width: number;
  height: number;
  frame: { left: number; right: number; top: number; bottom: number };
  x: Axis;
  y: Axis;
  xLog: boolean;
  yLog: boolean;
  xTicks: (Tick & { at: number })[];
  yTicks: (Tick & { at: number })[];
  lines: Line[];
  marks: PlacedMark[];
  stops: number[]; // every x at which there is a point
  left: number; // points that cannot be drawn
}

const LETTER = 7; // pixels

export function linesLayout(plot: Lines, shown: Shown, width: number, height: number): Layout {
  const xLog = shown.xLog ?? plot.xLog;
  const yLog = shown.yLog ?? plot.yLog;
  const fits = ({ x, y }: Point): boolean => drawable(x, xLog) && drawable(y, yLog);
  const on = plot.series
    .map((series, index) => ({ ...series, index }))
    .filter(({ index }) => !shown.hidden.includes(index));
  const kept = on.map((series) => ({
    ...series,
    points: series.points.filter(fits),
    ghost: (series.ghost ?? []).filter(fits),
  }));
  const points = kept.flatMap((series) => series.points);
  const ghosts = kept.flatMap((series) => series.ghost);
  const total = on.reduce((sum, series) => sum + series.points.length, 0);
  const marks = plot.marks.filter(
    ({ x, y }) => (x === null || drawable(x, xLog)) && (y === null || drawable(y, yLog)),
  );
  const xs = [...points, ...ghosts].map(({ x }) => x).concat(ends(marks, 'x'));
  const ys = [
    ...points.flatMap(({ y, low, high }) => [y, ...bounds(low, yLog), ...bounds(high, yLog)]),
    ...ghosts.map(({ y }) => y),
    ...ends(marks, 'y'),
  ];
  const [bottom, top] = [height - 26, 12];
  const [yLow, yHigh] = roomy(extent(ys, yLog), yLog, 0.06);
  const y: Axis = { low: yLow, high: yHigh, start: bottom, end: top, log: yLog };
  const yTexts = ticksOf(y, Math.max(2, Math.round(height / 45)));
  const widest = Math.max(1, ...yTexts.map((each) => each.text.length));
  const [left, right] = [widest * LETTER + 10, width - 14];
  const [xLow, xHigh] = roomy(extent(xs, xLog), xLog, 0.02);
  const x: Axis = { low: xLow, high: xHigh, start: left, end: right, log: xLog };
  const xTexts = ticksOf(x, Math.max(2, Math.floor((right - left) / 64)));
  const at = (value: Point, height_ = value.y): [number, number] => [
    placeOn(x, value.x),
    placeOn(y, height_),
  ];
  return {
    width,
    height,
    frame: { left, right, top, bottom },
    x,
    y,
    xLog,
    yLog,
    xTicks: xTexts.map((each) => ({ ...each, at: placeOn(x, each.value) })),
    yTicks: yTexts.map((each) => ({ ...each, at: placeOn(y, each.value) })),
    lines: kept.map((series) => {
      const dots = series.points.map((point) => ({ point, at: at(point) }));
      const area = areaOf(series.points, at, yLog, yLow);
      const band = area.length ? `${path(area)}Z` : '';
      const { index, name, pen = index, literal = false } = series;
      const ghost = series.ghost.map((point) => at(point));
      const own = { index, name, pen, literal, band, dots, area, ghost };
      return { ...own, path: path(dots.map((dot) => dot.at)) };
    }),
    marks: marks.map((mark) => ({
      label: mark.label,
      x: mark.x === null ? null : placeOn(x, mark.x),
      y: mark.y === null ? null : placeOn(y, mark.y),
    })),
    stops: [...new Set(points.map((point) => point.x))].sort((one, other) => one - other),
    left: total - points.length,
  };
}

function ends(marks: Mark[], side: 'x' | 'y'): number[] {
  return marks.flatMap((mark) => mark[side] ?? []);
}

function bounds(value: number | null, log: boolean): number[] {
  return value !== null && drawable(value, log) ? [value] : [];
}

export function path(places: [number, number][]): string {
  return places.map(([x, y], i) => `${i ? 'L' : 'M'}${round(x)} ${round(y)}`).join('');
}

// Of the points that have an interval; what is not positive ends at the foot of a logarithmic axis.
function areaOf(
  points: Point[],
  at: (point: Point, height: number) => [number, number],
  log: boolean,
  foot: number,
): [number, number][] {
  const some = points.filter(({ low, high }) => drawable(low ?? NaN, false) && high !== null);
  const upper = some.filter(({ high }) => drawable(high ?? NaN, log));
  if (upper.length < 2) return [];
  const low = ({ low: value }: Point): number => (drawable(value ?? NaN, log) ? value! : foot);
  const there = upper.map((each) => at(each, each.high!));
  const back = [...upper].reverse().map((each) => at(each, low(each)));
  return [...there, ...back];
}

function round(value: number): number {
  return Math.round(value * 100) / 100;
}

// What is read at a place: the points that lie there, or the one that lies nearest.
export function readAt(points: Point[], at: number, nearest = false): Point[] {
  const here = points.filter((point) => point.x === at);
  if (here.length || !nearest) return here;
  let best: Point | null = null;
  for (const point of points)
    if (Number.isFinite(point.y) && (!best || Math.abs(point.x - at) < Math.abs(best.x - at)))
      best = point;
  return best ? [best] : [];
}

// The stop that is nearest on the screen.
export function nearest(layout: Layout, at: number): number {
  let best = -1;
  let least = Infinity;
  layout.stops.forEach((stop, i) => {
    const away = Math.abs(placeOn(layout.x, stop) - at);
    if (away < least) [best, least] = [i, away];
  });
  return best;
}
