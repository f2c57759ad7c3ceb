// All that is set on the page, and the address that holds it: only what differs from the preset.

import { fields, printFields } from '../shared/address';
import type { Matrix, Vector } from './math';
import { MOST_HEADS, MOST_KEYS, MOST_SAMPLES, resized, rounded, type Plane } from './plane';
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
  base: number; // its logarithm to 10
  t: number;
  steps: number;
  s: number; // of the query, with rotary codes
}

export interface State {
  panel: Panel;
  preset: string;
  plane: Plane;
  features: FeatureChoices;
  positions: PositionChoices;
}

const FEATURES: FeatureChoices = { d: 16, power: 6, size: 1, orthogonal: true, seed: 1 };
const POSITIONS: PositionChoices = { width: 8, base: 2, t: 3, steps: 1, s: 12 };

export interface Range {
  low: number;
  high: number;
  step?: number; // else 1
  log?: boolean; // equal steps are equal factors; `low` is above 0
  zero?: boolean; // the lowest place is 0
}

// Of all that has a slider.
export const RANGES = {
  beta: { low: 0.05, high: 50, log: true },
  isotropic: { low: 0.0005, high: 1, log: true, zero: true },
  radial: { low: 0, high: 1, step: 0.01 },
  samples: { low: 10, high: MOST_SAMPLES, step: 10 },
  d: { low: 2, high: 32 },
  power: { low: 1, high: 10 },
  size: { low: 0, high: 6, step: 0.1 },
  width: { low: 2, high: 16, step: 2 },
  base: { low: 0.5, high: 4, step: 0.1 },
  t: { low: 0, high: 100 },
  steps: { low: 0, high: 20 },
  s: { low: 0, high: 100 },
} satisfies Record<string, Range>;
export type Ranged = keyof typeof RANGES;
const SEEDS = 1e6;
const FARTHEST = 1000; // coordinate that an address may hold

export function presetOf(id: string): Preset {
  return PRESETS.find((each) => each.id === id) ?? PRESETS[0];
}

export function print(state: State): string {
  const start = presetOf(state.preset).plane;
  const found: [string, string][] = [
    ['panel', state.panel === 'plane' ? '' : state.panel],
    ['preset', state.preset === PRESETS[0].id ? '' : state.preset],
  ];
  for (const name of Object.keys(start) as (keyof Plane)[]) {
    const text = written(state.plane[name]);
    if (text !== written(start[name])) found.push([name, text]);
  }
  found.push(...differing('f', state.features, FEATURES));
  found.push(...differing('p', state.positions, POSITIONS));
  return printFields(found);
}

function differing<T extends object>(short: string, own: T, given: T): [string, string][] {
  return (Object.keys(given) as (keyof T & string)[])
    .filter((name) => own[name] !== given[name])
    .map((name) => [`${short}-${name}`, written(own[name] as number | boolean)]);
}

function written(value: Plane[keyof Plane]): string {
  if (!Array.isArray(value)) return typeof value === 'boolean' ? String(+value) : String(value);
  return value
    .map((each) =>
      Array.isArray(each) ? each.join(',') : typeof each === 'boolean' ? String(+each) : each,
    )
    .join(';');
}

// What is unknown or impossible is as if it were not there.
export function parse(fragment: string): State {
  const found = fields(fragment);
  const preset = presetOf(found.get('preset') ?? '');
  const start = preset.plane;
  const keys = rows(found.get('keys'), MOST_KEYS);
  let plane: Plane = keys ? resized({ ...start, keys }, keys.length) : { ...start };
  const n = plane.keys.length;
  const values = rows(found.get('values'), MOST_KEYS);
  plane = {
    ...plane,
    values: values?.length === n ? values : plane.values,
    queries: rows(found.get('queries'), MOST_HEADS) ?? plane.queries,
    query: list(found.get('query'), 4) ?? plane.query,
    value: list(found.get('value'), 4) ?? plane.value,
    noisy: flags(found.get('noisy'), n) ?? plane.noisy,
    allowed: flags(found.get('allowed'), n) ?? plane.allowed,
    identical: flag(found.get('identical'), plane.identical),
    self: flag(found.get('self'), plane.self),
    causal: flag(found.get('causal'), plane.causal),
    how: found.get('how') === 'after' ? 'after' : plane.how,
    beta: within(found.get('beta'), 0, 100, plane.beta),
    isotropic: within(found.get('isotropic'), 0, 2, plane.isotropic),
    radial: within(found.get('radial'), 0, 2, plane.radial),
    samples: Math.round(within(found.get('samples'), 2, MOST_SAMPLES, plane.samples)),
    seed: Math.round(within(found.get('seed'), 0, SEEDS, plane.seed)),
    asking: Math.round(within(found.get('asking'), 0, n - 1, Math.min(plane.asking, n - 1))),
  };
  const number = (name: Ranged, short: string, given: number): number =>
    within(found.get(`${short}-${name}`), RANGES[name].low, RANGES[name].high, given);
  const whole = (name: Ranged, short: string, given: number): number =>
    Math.round(number(name, short, given));
  return {
    panel: PANELS.find((each) => each === found.get('panel')) ?? 'plane',
    preset: preset.id,
    plane,
    features: {
      d: whole('d', 'f', FEATURES.d),
      power: whole('power', 'f', FEATURES.power),
      size: number('size', 'f', FEATURES.size),
      orthogonal: flag(found.get('f-orthogonal'), FEATURES.orthogonal),
      seed: Math.round(within(found.get('f-seed'), 0, SEEDS, FEATURES.seed)),
    },
    positions: {
      width: 2 * Math.round(number('width', 'p', POSITIONS.width) / 2),
      base: number('base', 'p', POSITIONS.base),
      t: whole('t', 'p', POSITIONS.t),
      steps: whole('steps', 'p', POSITIONS.steps),
      s: whole('s', 'p', POSITIONS.s),
    },
  };
}

function within(text: string | undefined, low: number, high: number, given: number): number {
  const value = text === undefined || text === '' ? NaN : Number(text);
  return value >= low && value <= high ? value : given;
}

function flag(text: string | undefined, given: boolean): boolean {
  return text === '1' || (text !== '0' && given);
}

function flags(text: string | undefined, count: number): boolean[] | null {
  const found = text?.split(';') ?? [];
  const good = found.length === count && found.every((each) => each === '0' || each === '1');
  return good ? found.map((each) => each === '1') : null;
}

function list(text: string | undefined, count: number): Vector | null {
  const found = text?.split(';').map(coordinate) ?? [];
  return found.length === count && !found.some(Number.isNaN) ? found : null;
}

function rows(text: string | undefined, most: number): Matrix | null {
  const found = text?.split(';').map((row) => row.split(',').map(coordinate)) ?? [];
  const good = found.every((row) => row.length === 2 && !row.some(Number.isNaN));
  return found.length && found.length <= most && good ? found : null;
}

function coordinate(text: string): number {
  const value = text.trim() === '' ? NaN : Number(text);
  return Math.abs(value) <= FARTHEST ? rounded(value) : NaN;
}
