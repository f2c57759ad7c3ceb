// Formats sizes, times and counts in few characters.

import { formatShort } from '../report/number-format';

const MINUTE = 60;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

export function formatBytes(formatCount: number | null): string {
  if (formatCount === null) return '–';
  const units = ['B', 'kB', 'MB', 'GB', 'TB'];
  let [value, unit] = [formatCount, 0];
  while (value >= 999.5 && unit < units.length - 1) [value, unit] = [value / 1000, unit + 1];
  return `${unit ? Number(value.toPrecision(3)) : value} ${units[unit]}`;
}

// "5 min ago"; a time slightly in the future is "now".
export function formatAge(time: number | null, now = Date.now() / 1000): string {
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
export function formatCount(value: number | null): string {
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

// A metric: NaN is shown as such, and a missing value as a dash.
export function formatMetric(value: number | null): string {
  return value !== null && Number.isNaN(value) ? 'NaN' : formatShort(value);
}

// Quotes a text as one word for the shell.
export function quoteForShell(text: string): string {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}

// 0% and 100% only for exactly 0 and 1.
export function formatPercent(fraction: number | null): string {
  if (fraction === null || !Number.isFinite(fraction)) return '–';
  const percentage = 100 * fraction;
  const whole = Math.round(percentage);
  if ((whole === 0 && fraction > 0) || (whole === 100 && fraction < 1)) {
    if (percentage < 0.1) return '< 0.1%';
    return percentage > 99.9 ? '> 99.9%' : `${percentage.toFixed(1)}%`;
  }
  return `${whole}%`;
}
