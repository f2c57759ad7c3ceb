// Settings of several runs side by side: what differs, in groups.

import type { DiffRow } from './api-types';

export interface Group {
  name: string; // "model"; empty: of the run itself
  rows: { name: string; values: string[]; other: boolean[] }[];
}

// "model.width" is width in model; `other` marks what differs from the first run.
export function grouped(rows: DiffRow[]): Group[] {
  const groups = new Map<string, Group>();
  for (const { setting, values } of rows) {
    const dot = setting.indexOf('.');
    const [group, name] = dot < 0 ? ['', setting] : [setting.slice(0, dot), setting.slice(dot + 1)];
    const texts = values.map(written);
    const row = { name, values: texts, other: texts.map((each) => each !== texts[0]) };
    const known = groups.get(group);
    if (known) known.rows.push(row);
    else groups.set(group, { name: group, rows: [row] });
  }
  return [...groups.values()];
}

// 2/15 as 0.1333333; whole numbers whole.
function shown(value: number): string {
  return String(Number.isInteger(value) ? value : Number(value.toPrecision(7)));
}

export function written(value: unknown): string {
  if (value === null || value === undefined) return '–';
  if (typeof value === 'boolean') return value ? 'yes' : 'no';
  if (typeof value === 'string') return value;
  if (typeof value === 'number') return shown(value).replace('-', '−');
  return Array.isArray(value) ? value.map(written).join(', ') : JSON.stringify(value);
}
