// A figure as marks, so that it can be saved as a file: title, axes, lines or bars, legend.

import type { Measure } from '../shared/fonts';
import { headColour } from '../shared/theme';
import type { Drawing, Mark } from '../look/view';
import { axisOf, barsOn, levelsOf } from './bars-layout';
import { linesLayout, type Layout, type Line } from './layout';
import { drawable, placeOn, short } from './numbers';
import type { Bars, Lines, Plot } from './plot';
import { flat, plain } from './prose';
import type { Shown } from './shown';

const [TITLE, TEXT, ROW, EDGE] = [15, 12, 19, 14];
const NARROWEST = 480;
const DOTS = 40; // points of a line that are drawn one by one

export interface Named {
  title: string;
  plot: Plot;
}

export function drawn(
  { title, plot }: Named,
  shown: Shown,
  width: number,
  height: number,
  measure: Measure,
): Drawing {
  const wide = Math.max(NARROWEST, width);
  const top: Mark[] = [
    { kind: 'text', x: EDGE, y: 24, text: plain(title), size: TITLE, bold: true, limit: wide - 2 * EDGE },
    { kind: 'text', x: EDGE, y: 44, text: flat(plot.y), size: TEXT, fill: 'dim', limit: wide - 2 * EDGE },
  ]; // prettier-ignore
  const { marks, bottom } =
    plot.kind === 'lines'
      ? lines(plot, shown, wide, height, 52)
      : bars(plot, shown, wide, 58, measure);
  const summary = `${plain(title)}: ${flat(plot.y)}.`;
  return { width: wide, height: bottom + EDGE, marks: [...top, ...marks], targets: [], summary };
}

interface Piece {
  marks: Mark[];
  bottom: number;
}

function lines(plot: Lines, shown: Shown, width: number, height: number, from: number): Piece {
  const layout = linesLayout(plot, shown, width - EDGE, height);
  const { right, bottom } = layout.frame;
  const below = from + bottom + 36;
  const marks: Mark[] = [
    ...axes(layout, from),
    ...layout.lines.flatMap((line) => curve(line, from)),
    ...levels(layout, from),
    { kind: 'text', x: right, y: below, text: flat(plot.x), size: TEXT, fill: 'dim', anchor: 'end' },
  ]; // prettier-ignore
  const legend = layout.lines.flatMap((line, row): Mark[] => {
    const y = below + ROW * (row + 1);
    const points: [number, number][] = [[EDGE, y - 4], [EDGE + 26, y - 4]]; // prettier-ignore
    return [
      { kind: 'poly', points, ...pen(line.pen) },
      { kind: 'text', x: EDGE + 34, y, text: line.literal ? plain(line.name) : flat(line.name), size: TEXT, limit: width - 3 * EDGE - 34 },
    ]; // prettier-ignore
  });
  return { marks: [...marks, ...legend], bottom: below + ROW * layout.lines.length };
}

function pen(index: number): { stroke: string; width: number; dash: number[] } {
  return { stroke: headColour(index), width: 2, dash: dashOf(index) };
}

const DASHES = [[], [7, 3], [2, 3], [9, 3, 2, 3], [12, 4], [4, 4], [1, 4], [14, 3, 2, 3]];

// There are as many as colours: one that comes again has another dash.
export function dashOf(index: number): number[] {
  return DASHES[(index + Math.floor(index / DASHES.length)) % DASHES.length];
}

function axes({ frame, xTicks, yTicks }: Layout, from: number): Mark[] {
  const { left, right, bottom } = frame;
  const rule = { kind: 'line', stroke: 'rule', width: 1, opacity: 1 } as const;
  const text = { kind: 'text', size: TEXT, fill: 'dim' } as const;
  return [
    ...yTicks.flatMap(({ text: said, at }): Mark[] => [
      { ...rule, x1: left, x2: right, y1: from + at, y2: from + at },
      { ...text, x: left - 6, y: from + at + 4, text: said, anchor: 'end' },
    ]),
    ...xTicks.flatMap(({ text: said, at }): Mark[] => [
      { ...rule, x1: at, x2: at, y1: from + bottom, y2: from + bottom + 4 },
      { ...text, x: at, y: from + bottom + 18, text: said, anchor: 'middle' },
    ]),
    { ...rule, stroke: 'dim', x1: left, x2: right, y1: from + bottom, y2: from + bottom },
  ];
}

function curve({ pen: own, dots, area, ghost }: Line, from: number): Mark[] {
  const lower = (points: [number, number][]): [number, number][] =>
    points.map(([x, y]) => [x, y + from]);
  const points = lower(dots.map(({ at }) => at));
  const fill = headColour(own);
  const found: Mark[] = [{ kind: 'poly', points, ...pen(own) }];
  if (ghost.length)
    found.unshift({ kind: 'poly', points: lower(ghost), stroke: fill, width: 1, opacity: 0.3 });
  if (area.length)
    found.unshift({ kind: 'poly', points: lower(area), closed: true, fill, opacity: 0.15 });
  if (points.length <= DOTS)
    for (const [x, y] of points)
      found.push({ kind: 'rect', x: x - 2.6, y: y - 2.6, w: 5.2, h: 5.2, radius: 2.6, fill });
  return found;
}

function levels({ marks, frame, width }: Layout, from: number): Mark[] {
  const { left, right, top, bottom } = frame;
  const ink = { stroke: 'ink', width: 1, opacity: 1, dash: [4, 3] };
  const dashed = { kind: 'line' as const, ...ink };
  return marks.flatMap((mark): Mark[] => {
    const name = markPlace(mark, { right, top }, width);
    const found: Mark[] = [
      { kind: 'text', ...name, y: from + name.y, text: flat(mark.label), size: TEXT },
    ];
    if (mark.x !== null)
      found.push({ ...dashed, x1: mark.x, x2: mark.x, y1: from + top, y2: from + bottom });
    if (mark.y !== null)
      found.push({ ...dashed, x1: left, x2: right, y1: from + mark.y, y2: from + mark.y });
    return found;
  });
}

// Where the name of a marked level stands: on the side that has more room.
export function markPlace(
  mark: { x: number | null; y: number | null },
  { right, top }: { right: number; top: number },
  width: number,
): { x: number; y: number; anchor: 'start' | 'end' } {
  const before = mark.x !== null && mark.x > width / 2;
  return {
    x: mark.x === null ? right : mark.x + (before ? -5 : 5),
    y: mark.y === null ? top + 10 : mark.y < top + 18 ? mark.y + 14 : mark.y - 5,
    anchor: mark.x === null || before ? 'end' : 'start',
  };
}

function bars(plot: Bars, shown: Shown, width: number, from: number, measure: Measure): Piece {
  const log = shown.yLog ?? false;
  const on = barsOn(plot, shown);
  const said = plot.literal ? plain : flat;
  const values = on.map((bar) => short(bar.value));
  const name = Math.min(width * 0.45, 8 + Math.max(0, ...on.map((bar) => measure(said(bar.name), TEXT))));
  const end = width - EDGE - 8 - Math.max(0, ...values.map((each) => measure(each, TEXT)));
  const axis = { ...axisOf(plot, shown), start: EDGE + name + 8, end }; // prettier-ignore
  const zero = log ? axis.start : placeOn(axis, 0);
  const marks = on.flatMap((bar, row): Mark[] => {
    const y = from + (ROW + 5) * row;
    const found: Mark[] = [
      { kind: 'text', x: EDGE, y: y + 13, text: said(bar.name), size: TEXT, limit: name },
      { kind: 'text', x: width - EDGE, y: y + 13, text: values[row], size: TEXT, anchor: 'end' },
    ];
    if (drawable(bar.value, log)) {
      const to = placeOn(axis, bar.value);
      const [x, w] = [Math.min(zero, to), Math.max(2, Math.abs(to - zero))];
      found.push({ kind: 'rect', x, y: y + 2, w, h: ROW - 5, fill: 'head0', radius: 2 });
    }
    if (bar.low !== null && bar.high !== null && drawable(bar.high, log)) {
      const low = drawable(bar.low, log) ? placeOn(axis, bar.low) : axis.start;
      found.push(...whisker(low, placeOn(axis, bar.high), y + 9));
    }
    return found;
  });
  const bottom = from + (ROW + 5) * on.length;
  const upright = { kind: 'line', y1: from - 2, y2: bottom, opacity: 1, width: 1 } as const;
  marks.push({ ...upright, x1: zero, x2: zero, stroke: 'dim' });
  const levels = levelsOf(plot, log).map(({ label, y }, row): Mark[] => {
    const x = placeOn(axis, y);
    const text = `dashed: ${flat(label)}, ${short(y)}`;
    return [
      { ...upright, x1: x, x2: x, stroke: 'ink', dash: [4, 3] },
      { kind: 'text', x: EDGE, y: bottom + ROW * (row + 1), text, size: TEXT, fill: 'dim' },
    ];
  });
  return { marks: [...marks, ...levels.flat()], bottom: bottom + ROW * levels.length + 4 };
}

function whisker(low: number, high: number, y: number): Mark[] {
  const thin = { kind: 'line', stroke: 'ink', width: 1.5, opacity: 1 } as const;
  return [
    { ...thin, x1: low, x2: high, y1: y, y2: y },
    { ...thin, x1: low, x2: low, y1: y - 4, y2: y + 4 },
    { ...thin, x1: high, x2: high, y1: y - 4, y2: y + 4 },
  ];
}
