// Scales of axes with d3, and ticks with their texts.

import { scaleLinear, scaleLog, type ScaleLinear, type ScaleLogarithmic } from 'd3-scale';
import { formatShort } from './number-format';

export type Scale = ScaleLinear<number, number> | ScaleLogarithmic<number, number>;

export interface Tick {
  at: number; // pixels
  text: string;
}

const HUGE = 1e300; // larger values are drawn at this one, so that differences do not overflow
const TINY = 1e-300;

export function isDrawable(value: number | null, log: boolean): value is number {
  return value !== null && Number.isFinite(value) && (!log || value > 0);
}

// `margin` is a fraction of the axis added at both ends. Values beyond the axis are moved to its ends.
export function createScale(
  values: number[],
  range: [number, number],
  log: boolean,
  margin = 0,
): Scale {
  const scale = log ? scaleLog() : scaleLinear();
  return scale.domain(addMargin(extent(values, log), log, margin)).range(range).clamp(true);
}

// Minimum and maximum; a wider range if they are nearly equal.
function extent(values: number[], log: boolean): [number, number] {
  let [low, high] = [Infinity, -Infinity];
  for (const value of values) {
    const bounded = Math.min(Math.max(value, log ? TINY : -HUGE), HUGE);
    low = Math.min(low, bounded);
    high = Math.max(high, bounded);
  }
  if (low > high) return log ? [0.1, 10] : [0, 1];
  const size = Math.max(Math.abs(low), Math.abs(high));
  if (high - low > 1e-9 * size && size > TINY) return [low, high];
  if (log) return [low / 3, high * 3];
  return size > TINY ? [low - size / 10, high + size / 10] : [0, 1]; // 0 is mostly a fraction or an error
}

function addMargin([low, high]: [number, number], log: boolean, margin: number): [number, number] {
  if (log) {
    const by = 10 ** (margin * (Math.log10(high) - Math.log10(low)));
    return [Math.max(low / by, TINY / 1e6), Math.min(high * by, HUGE * 1e6)];
  }
  const by = (high - low) * margin;
  return [low >= 0 && low < by ? 0 : low - by, high + by];
}

export function createTicks(scale: Scale, log: boolean, count: number, percent = false): Tick[] {
  const tick = (value: number, text: string): Tick => ({ at: scale(value), text });
  if (log) {
    const named = roundValues(scale, count);
    if (named.length > 1) return named.map((value) => tick(value, powerText(value)));
  }
  const linear = scaleLinear().domain(scale.domain());
  const values = linear.ticks(count);
  const largest = Math.max(...values.map(Math.abs));
  const usual = largest === 0 || (largest >= 1e-3 && largest < 1e6);
  const text = percent ? linear.tickFormat(count, '%') : usual ? linear.tickFormat(count) : formatShort;
  return values.map((value) => tick(value, text(value)));
}

// Keeps as many of 1, 2, ... 9, 10, 20, ... as fit: 1, 2, 5, 10, ... or 1, 10, ...
function roundValues(scale: Scale, count: number): number[] {
  const values = scale.ticks(count);
  const [from, to] = scale.range();
  const near = (list: number[]): boolean =>
    list.some((value, i) => i > 0 && Math.abs(scale(value) - scale(list[i - 1])) < (0.7 * Math.abs(to - from)) / count);
  const first = (value: number): number => Number(value.toExponential(6).split('e')[0]);
  const some = values.length > count || near(values) ? values.filter((value) => [1, 2, 5].includes(first(value))) : values;
  return some.length > 1.6 * count ? some.filter((value) => first(value) === 1) : some;
}

const RAISED: Record<string, string> = { '-': '⁻' };
Array.from('⁰¹²³⁴⁵⁶⁷⁸⁹').forEach((sign, digit) => (RAISED[digit] = sign));

// 0.01, 1, 100, 100,000; then 10⁶
function powerText(value: number): string {
  const power = Math.round(Math.log10(value));
  if ((power >= -3 && power <= 5) || Number(`1e${power}`) !== value) return formatShort(value);
  return `10${Array.from(String(power), (sign) => RAISED[sign]).join('')}`;
}
