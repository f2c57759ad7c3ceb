// Which bars are shown, and the axis they share. Pure, so that page and file agree.

import { drawable, extent, type Axis } from './numbers';
import type { Bar, Bars } from './plot';
import type { Shown } from './shown';

export function barsOn(plot: Bars, shown: Shown): Bar[] {
  return plot.values.filter((_, i) => !shown.hidden.includes(i));
}

// From 0 to 100; what is switched off leaves its room to the others.
export function axisOf(plot: Bars, shown: Shown): Axis {
  const log = shown.yLog ?? false;
  const all = barsOn(plot, shown)
    .flatMap(({ value, low, high }) => [value, low ?? NaN, high ?? NaN])
    .concat(plot.marks.map(({ y }) => y ?? NaN))
    .filter((value) => drawable(value, log));
  const [low, high] = extent(log ? all : [0, ...all], log);
  const foot = log ? low / 3 : low; // the shortest bar is seen too
  return { low: foot, high, start: 0, end: 100, log };
}

export function levelsOf(plot: Bars, log: boolean): { label: string; y: number }[] {
  return plot.marks.flatMap(({ label, y }) => (y !== null && drawable(y, log) ? [{ label, y }] : []));
}
