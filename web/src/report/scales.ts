// Axes: d3's scales over all values, and ticks with their texts.

import { scaleLinear, scaleLog, type ScaleLinear, type ScaleLogarithmic } from 'd3-scale';
import { short } from './numbers';

export type Scale = ScaleLinear<number, number> | ScaleLogarithmic<number, number>;

export interface Tick {
  at: number; // pixels
  text: string;
}

const HUGE = 1e300; // larger values are drawn there, so that no difference overflows
const TINY = 1e-300;

export function drawable(value: number | null, log: boolean): value is number {
  return value !== null && Number.isFinite(value) && (!log || value > 0);
}

// `room`: as a share of the axis, beyond both ends. Values outside of the axis lie at its ends.
export function scaleOver(
  values: number[],
  range: [number, number],
  log: boolean,
  room = 0,
): Scale {
  const scale = log ? scaleLog() : scaleLinear();
  return scale.domain(roomy(extent(values, log), log, room)).range(range).clamp(true);
}

// The least and the largest value; a wider range where they hardly differ.
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
  return size > TINY ? [low - size / 10, high + size / 10] : [0, 1]; // 0 is mostly a share or an error
}

function roomy([low, high]: [number, number], log: boolean, room: number): [number, number] {
  if (log) {
    const by = 10 ** (room * (Math.log10(high) - Math.log10(low)));
    return [Math.max(low / by, TINY / 1e6), Math.min(high * by, HUGE * 1e6)];
  }
  const by = (high - low) * room;
  return [low >= 0 && low < by ? 0 : low - by, high + by];
}

export function ticksOf(scale: Scale, log: boolean, count: number, percent = false): Tick[] {
  const place = (value: number, text: string): Tick => ({ at: scale(value), text });
  if (log) {
    const named = roundOnes(scale.ticks(count), count);
    if (named.length > 1) return named.map((value) => place(value, powerText(value)));
  }
  const linear = scaleLinear().domain(scale.domain());
  const values = linear.ticks(count);
  const most = Math.max(...values.map(Math.abs));
  const usual = most === 0 || (most >= 1e-3 && most < 1e6);
  const text = percent ? linear.tickFormat(count, '%') : usual ? linear.tickFormat(count) : short;
  return values.map((value) => place(value, text(value)));
}

// Of 1, 2, ... 9, 10, 20, ... those that have room: 1, 2, 5, 10, ... or 1, 10, ...
function roundOnes(values: number[], count: number): number[] {
  const first = (value: number): number => Number(value.toExponential(6)[0]);
  const some = values.length > count ? values.filter((value) => [1, 2, 5].includes(first(value))) : values;
  return some.length > 1.6 * count ? some.filter((value) => first(value) === 1) : some;
}

const RAISED: Record<string, string> = { '-': '⁻' };
Array.from('⁰¹²³⁴⁵⁶⁷⁸⁹').forEach((sign, digit) => (RAISED[digit] = sign));

// 0.01, 1, 100, 10,000; then 10⁵
function powerText(value: number): string {
  const power = Math.round(Math.log10(value));
  if ((power >= -3 && power <= 4) || Number(`1e${power}`) !== value) return short(value);
  return `10${Array.from(String(power), (sign) => RAISED[sign]).join('')}`;
}
