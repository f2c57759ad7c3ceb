// The settings in which runs differ, in groups.

import type { DiffRow } from './api-types';

export interface SettingsGroup {
  name: string; // such as "model"; empty for settings of the run itself
  rows: { name: string; values: string[]; differs: boolean[] }[];
}

// "model.width" is the setting width of group model; `differs` compares with the first run.
export function groupSettings(rows: DiffRow[]): SettingsGroup[] {
  const groups = new Map<string, SettingsGroup>();
  for (const { setting, values } of rows) {
    const dot = setting.indexOf('.');
    const [group, name] = dot < 0 ? ['', setting] : [setting.slice(0, dot), setting.slice(dot + 1)];
    const texts = values.map(formatSetting);
    const row = { name, values: texts, differs: texts.map((text) => text !== texts[0]) };
    const existing = groups.get(group);
    if (existing) existing.rows.push(row);
    else groups.set(group, { name: group, rows: [row] });
  }
  return [...groups.values()];
}

// 2/15 becomes 0.1333333; whole numbers stay whole.
function formatNumber(value: number): string {
  return String(Number.isInteger(value) ? value : Number(value.toPrecision(7)));
}

export function formatSetting(value: unknown): string {
  if (value === null || value === undefined) return '–';
  if (typeof value === 'boolean') return value ? 'yes' : 'no';
  if (typeof value === 'string') return value;
  if (typeof value === 'number') return formatNumber(value).replace('-', '−');
  return Array.isArray(value) ? value.map(formatSetting).join(', ') : JSON.stringify(value);
}
