// Sizes, times and counts in few letters.

import { short } from '../report/numbers';

const MINUTE = 60;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

export function bytes(count: number | null): string {
  if (count === null) return '–';
  const units = ['B', 'kB', 'MB', 'GB', 'TB'];
  let [value, unit] = [count, 0];
  while (value >= 999.5 && unit < units.length - 1) [value, unit] = [value / 1000, unit + 1];
  return `${unit ? Number(value.toPrecision(3)) : value} ${units[unit]}`;
}

// "5 min ago"; a clock that is a little behind says now.
export function ago(time: number | null, now = Date.now() / 1000): string {
  if (time === null) return '–';
  const past = now - time;
  if (past < 10) return 'now';
  if (past < MINUTE) return `${Math.floor(past)} s ago`;
  if (past < HOUR) return `${Math.floor(past / MINUTE)} min ago`;
  if (past < DAY) return `${Math.floor(past / HOUR)} h ago`;
  const days = Math.floor(past / DAY);
  return days === 1 ? 'yesterday' : `${days.toLocaleString('en')} days ago`;
}

// 1.3 M
export function count(value: number | null): string {
  if (value === null) return '–';
  const units: [number, string][] = [
    [1e9, ' G'],
    [1e6, ' M'],
    [1e4, ' k'],
  ];
  const [unit, name] = units.find(([each]) => value >= each) ?? [1, ''];
  if (unit === 1) return value.toLocaleString('en', { maximumFractionDigits: 0 });
  return `${Number((value / (unit === 1e4 ? 1e3 : unit)).toPrecision(3))}${name}`;
}

// What was measured: a loss that is no number is not one that is missing.
export function metric(value: number | null): string {
  return value !== null && Number.isNaN(value) ? 'NaN' : short(value);
}

// As a shell reads it: one word, whatever a folder is called.
export function shellWord(text: string): string {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}

// 0% and 100% only where it is none or all.
export function percent(share: number | null): string {
  if (share === null || !Number.isFinite(share)) return '–';
  const hundred = 100 * share;
  const whole = Math.round(hundred);
  if ((whole === 0 && share > 0) || (whole === 100 && share < 1)) {
    if (hundred < 0.1) return '< 0.1%';
    return hundred > 99.9 ? '> 99.9%' : `${hundred.toFixed(1)}%`;
  }
  return `${whole}%`;
}
