// The state of the page, and the address that stores it: only what differs from the preset.

import { parseFields, printFields } from '../shared/address-fields';
import type { Matrix, Vector } from './math';
import {
  MAX_HEADS,
  MAX_KEYS,
  MAX_SAMPLES,
  withKeyCount,
  roundCoordinate,
  type Plane,
} from './plane-attention';
import { PRESETS, type Preset } from './presets';

export const PANELS = ['plane', 'features', 'positions'] as const;
export type Panel = (typeof PANELS)[number];

export interface FeatureChoices {
  d: number;
  power: number; // 2^power features
  size: number; // |q|^2 / sqrt(d)
  orthogonal: boolean;
  seed: number;
}

export interface PositionChoices {
  width: number;
  base: number; // base-10 logarithm of the base
  t: number;
  steps: number;
  s: number; // position of the query, for rotary codes
}

export interface State {
  panel: Panel;
  preset: string;
  plane: Plane;
  features: FeatureChoices;
  positions: PositionChoices;
}

const DEFAULT_FEATURES: FeatureChoices = { d: 16, power: 6, size: 1, orthogonal: true, seed: 1 };
const DEFAULT_POSITIONS: PositionChoices = { width: 8, base: 2, t: 3, steps: 1, s: 12 };

export interface SliderRange {
  low: number;
  high: number;
  step?: number; // 1 if missing
  log?: boolean; // logarithmic; `low` must be positive
  zero?: boolean; // the lowest position means 0
}

// The ranges of all sliders.
export const RANGES = {
  beta: { low: 0.05, high: 50, log: true },
  isotropic: { low: 0.0005, high: 1, log: true, zero: true },
  radial: { low: 0, high: 1, step: 0.01 },
  samples: { low: 10, high: MAX_SAMPLES, step: 10 },
  d: { low: 2, high: 32 },
  power: { low: 1, high: 10 },
  size: { low: 0, high: 6, step: 0.1 },
  width: { low: 2, high: 16, step: 2 },
  base: { low: 0.5, high: 4, step: 0.1 },
  t: { low: 0, high: 100 },
  steps: { low: 0, high: 20 },
  s: { low: 0, high: 100 },
} satisfies Record<string, SliderRange>;
export type SliderName = keyof typeof RANGES;
const MAX_SEED = 1e6;
const MAX_COORDINATE = 1000; // largest coordinate in an address

export function findPreset(id: string): Preset {
  return PRESETS.find((each) => each.id === id) ?? PRESETS[0];
}

export function formatFragment(state: State): string {
  const presetPlane = findPreset(state.preset).plane;
  const changed: [string, string][] = [
    ['panel', state.panel === 'plane' ? '' : state.panel],
    ['preset', state.preset === PRESETS[0].id ? '' : state.preset],
  ];
  for (const name of Object.keys(presetPlane) as (keyof Plane)[]) {
    const text = formatValue(state.plane[name]);
    if (text !== formatValue(presetPlane[name])) changed.push([name, text]);
  }
  changed.push(...changedFields('f', state.features, DEFAULT_FEATURES));
  changed.push(...changedFields('p', state.positions, DEFAULT_POSITIONS));
  return printFields(changed);
}

function changedFields<T extends object>(
  prefix: string,
  values: T,
  defaults: T,
): [string, string][] {
  return (Object.keys(defaults) as (keyof T & string)[])
    .filter((name) => values[name] !== defaults[name])
    .map((name) => [`${prefix}-${name}`, formatValue(values[name] as number | boolean)]);
}

function formatValue(value: Plane[keyof Plane]): string {
  if (!Array.isArray(value)) return typeof value === 'boolean' ? String(+value) : String(value);
  return value
    .map((each) =>
      Array.isArray(each) ? each.join(',') : typeof each === 'boolean' ? String(+each) : each,
    )
    .join(';');
}

// Ignores unknown names and invalid values.
export function parseFragment(fragment: string): State {
  const params = parseFields(fragment);
  const preset = findPreset(params.get('preset') ?? '');
  const presetPlane = preset.plane;
  const keys = parseRows(params.get('keys'), MAX_KEYS);
  let plane: Plane = keys
    ? withKeyCount({ ...presetPlane, keys }, keys.length)
    : { ...presetPlane };
  const keyCount = plane.keys.length;
  const values = parseRows(params.get('values'), MAX_KEYS);
  plane = {
    ...plane,
    values: values?.length === keyCount ? values : plane.values,
    queries: parseRows(params.get('queries'), MAX_HEADS) ?? plane.queries,
    query: parseVector(params.get('query'), 4) ?? plane.query,
    value: parseVector(params.get('value'), 4) ?? plane.value,
    noisy: parseFlags(params.get('noisy'), keyCount) ?? plane.noisy,
    allowed: parseFlags(params.get('allowed'), keyCount) ?? plane.allowed,
    identical: parseFlag(params.get('identical'), plane.identical),
    self: parseFlag(params.get('self'), plane.self),
    causal: parseFlag(params.get('causal'), plane.causal),
    how: params.get('how') === 'after' ? 'after' : plane.how,
    beta: parseNumber(params.get('beta'), 0, 100, plane.beta),
    isotropic: parseNumber(params.get('isotropic'), 0, 2, plane.isotropic),
    radial: parseNumber(params.get('radial'), 0, 2, plane.radial),
    samples: Math.round(parseNumber(params.get('samples'), 2, MAX_SAMPLES, plane.samples)),
    seed: Math.round(parseNumber(params.get('seed'), 0, MAX_SEED, plane.seed)),
    asking: Math.round(
      parseNumber(params.get('asking'), 0, keyCount - 1, Math.min(plane.asking, keyCount - 1)),
    ),
  };
  const readNumber = (name: SliderName, prefix: string, fallback: number): number =>
    parseNumber(params.get(`${prefix}-${name}`), RANGES[name].low, RANGES[name].high, fallback);
  const readInteger = (name: SliderName, prefix: string, fallback: number): number =>
    Math.round(readNumber(name, prefix, fallback));
  return {
    panel: PANELS.find((each) => each === params.get('panel')) ?? 'plane',
    preset: preset.id,
    plane,
    features: {
      d: readInteger('d', 'f', DEFAULT_FEATURES.d),
      power: readInteger('power', 'f', DEFAULT_FEATURES.power),
      size: readNumber('size', 'f', DEFAULT_FEATURES.size),
      orthogonal: parseFlag(params.get('f-orthogonal'), DEFAULT_FEATURES.orthogonal),
      seed: Math.round(parseNumber(params.get('f-seed'), 0, MAX_SEED, DEFAULT_FEATURES.seed)),
    },
    positions: {
      width: 2 * Math.round(readNumber('width', 'p', DEFAULT_POSITIONS.width) / 2),
      base: readNumber('base', 'p', DEFAULT_POSITIONS.base),
      t: readInteger('t', 'p', DEFAULT_POSITIONS.t),
      steps: readInteger('steps', 'p', DEFAULT_POSITIONS.steps),
      s: readInteger('s', 'p', DEFAULT_POSITIONS.s),
    },
  };
}

function parseNumber(
  text: string | undefined,
  low: number,
  high: number,
  fallback: number,
): number {
  const value = text === undefined || text === '' ? NaN : Number(text);
  return value >= low && value <= high ? value : fallback;
}

function parseFlag(text: string | undefined, fallback: boolean): boolean {
  return text === '1' || (text !== '0' && fallback);
}

function parseFlags(text: string | undefined, count: number): boolean[] | null {
  const parts = text?.split(';') ?? [];
  const isValid = parts.length === count && parts.every((each) => each === '0' || each === '1');
  return isValid ? parts.map((each) => each === '1') : null;
}

function parseVector(text: string | undefined, count: number): Vector | null {
  const values = text?.split(';').map(parseCoordinate) ?? [];
  return values.length === count && !values.some(Number.isNaN) ? values : null;
}

function parseRows(text: string | undefined, maxRows: number): Matrix | null {
  const rows = text?.split(';').map((row) => row.split(',').map(parseCoordinate)) ?? [];
  const isValid = rows.every((row) => row.length === 2 && !row.some(Number.isNaN));
  return rows.length && rows.length <= maxRows && isValid ? rows : null;
}

function parseCoordinate(text: string): number {
  const value = text.trim() === '' ? NaN : Number(text);
  return Math.abs(value) <= MAX_COORDINATE ? roundCoordinate(value) : NaN;
}
