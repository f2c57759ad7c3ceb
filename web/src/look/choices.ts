// Everything a person has chosen. It lives in the URL fragment, so that a link restores it.

import { encoded, fields } from '../shared/address';
import type { Header, Sequence, Side } from './format';

export interface Choices {
  view: string;
  side: number;
  layer: number; // index in side.layers
  heads: number[]; // indices among the layer's kept heads; empty: all
  mean: boolean; // the mean of the heads, as one
  queries: number[]; // selected query tokens; several are summed
  key: number | null; // focused key token
  scale: 'linear' | 'sqrt' | 'log';
  threshold: number; // weights below are hidden
  top: number; // keys per query at most; 0: all
  first: 'show' | 'hide' | 'renormalize'; // first-token sink
  separators: 'show' | 'hide' | 'renormalize';
  words: boolean; // merge sub-words into words
  search: string;
  weighting: 'weights' | 'norms'; // times the length of the value
  order: 'layer' | 'pattern' | 'change'; // of small maps
  step: number | null; // generated token that is looked at
  flow: 'rollout' | 'gradient';
  // compare: layer and head of the other side; null: those that correspond
  against: [number, number] | null;
  // of the matrix: first and last query, first and last key
  zoom: [number, number, number, number] | null;
  table: boolean; // the table instead of the drawing
}

export const DEFAULTS: Choices = {
  view: 'heads',
  side: 0,
  layer: 0,
  heads: [],
  mean: false,
  queries: [],
  key: null,
  scale: 'linear',
  threshold: 0,
  top: 0,
  first: 'show',
  separators: 'show',
  words: false,
  search: '',
  weighting: 'weights',
  order: 'layer',
  step: null,
  flow: 'rollout',
  against: null,
  zoom: null,
  table: false,
};

const SEARCH = 200; // characters of a search
const MANY = 4096; // members of a set
const BIGGEST = 2 ** 24; // of an index

const WORDS = {
  scale: ['linear', 'sqrt', 'log'],
  first: ['show', 'hide', 'renormalize'],
  separators: ['show', 'hide', 'renormalize'],
  weighting: ['weights', 'norms'],
  order: ['layer', 'pattern', 'change'],
  flow: ['rollout', 'gradient'],
} as const;

type Name = keyof Choices;

// What is shown before anything is chosen: what the capture opens with.
export function opening(header: Header): Choices {
  const { view, layer } = header.opening ?? DEFAULTS;
  return { ...DEFAULTS, view, layer };
}

// "view=matrix&layer=3&heads=0-2.5": only what differs from what is shown without a choice, always
// in the same order.
export function print(choices: Choices, first: Choices = DEFAULTS): string {
  const parts: string[] = [];
  for (const name of Object.keys(DEFAULTS) as Name[]) {
    const text = written(name, choices[name]);
    if (text !== written(name, first[name])) parts.push(`${name}=${text}`);
  }
  return parts.join('&');
}

function written(name: Name, value: Choices[Name]): string {
  if (value === null) return '';
  if (Array.isArray(value))
    return name === 'heads' || name === 'queries' ? ranges(value) : value.join('.');
  if (typeof value === 'boolean') return value ? '1' : '0';
  return encoded(String(value));
}

// Neighbors that follow one another become "3-7".
function ranges(numbers: number[]): string {
  const parts: string[] = [];
  for (let i = 0; i < numbers.length; i += 1) {
    const first = i;
    while (i + 1 < numbers.length && numbers[i + 1] === numbers[i] + 1) i += 1;
    parts.push(i > first ? `${numbers[first]}-${numbers[i]}` : String(numbers[first]));
  }
  return parts.join('.');
}

// What is unknown or bad is ignored.
export function parse(fragment: string, first: Choices = DEFAULTS): Choices {
  const choices: Choices = { ...first };
  for (const [name, text] of fields(fragment)) {
    if (!Object.hasOwn(DEFAULTS, name)) continue;
    const value = read(name as Name, text);
    if (value !== undefined) Object.assign(choices, { [name]: value });
  }
  return choices;
}

function read(name: Name, text: string): Choices[Name] | undefined {
  if (name === 'view') return /^[a-z]{1,20}$/.test(text) ? text : undefined;
  if (name === 'search') return text.slice(0, SEARCH);
  if (name in WORDS) {
    const known: readonly string[] = WORDS[name as keyof typeof WORDS];
    return known.includes(text) ? (text as Choices['scale']) : undefined;
  }
  if (name === 'heads' || name === 'queries') return set(text);
  if (name === 'zoom') return tuple(text, 4) as Choices['zoom'] | undefined;
  if (name === 'against') return tuple(text, 2) as Choices['against'] | undefined;
  if (typeof DEFAULTS[name] === 'boolean')
    return text === '1' ? true : text === '0' ? false : undefined;
  if (name === 'threshold') {
    const value = /^\d*\.?\d+(e-?\d{1,3})?$/.test(text) ? Number(text) : NaN;
    return value >= 0 && value <= 1 ? value : undefined;
  }
  return index(text);
}

function index(text: string): number | undefined {
  return /^\d{1,8}$/.test(text) && Number(text) <= BIGGEST ? Number(text) : undefined;
}

function tuple(text: string, length: number): number[] | undefined {
  const numbers = text.split('.').map(index);
  const whole = numbers.length === length && numbers.every((each) => each !== undefined);
  return whole ? (numbers as number[]) : undefined;
}

function set(text: string): number[] {
  const members = new Set<number>();
  for (const part of text.split('.')) {
    const [first, last = first] = part.split('-').map(index);
    if (first === undefined || last === undefined) continue;
    for (let i = first; i <= last && members.size < MANY; i += 1) members.add(i);
  }
  return [...members].sort((one, other) => one - other);
}

// Choices that this capture can show: indices within it, and nothing that another layer had.
export function bounded(choices: Choices, header: Header): Choices {
  const side = within(choices.side, header.sides.length);
  const { layers, sequences } = header.sides[side];
  const layer = within(choices.layer, layers.length);
  const info = layers[layer];
  const queries = info ? sequences[info.queries].tokens.length : 0;
  const keys = info ? sequences[info.keys].tokens.length : 0;
  const heads = info ? choices.heads.filter((each) => each < info.heads.length) : [];
  const all = info && heads.length === info.heads.length;
  return {
    ...choices,
    side,
    layer,
    heads: all ? [] : heads,
    queries: choices.queries.filter((each) => each < queries),
    key: choices.key !== null && choices.key < keys ? choices.key : null,
    // the last step is what would come next
    step: choices.step === null ? null : within(choices.step, longest(sequences) + 1),
    against: paired(choices.against, header.sides[1 - side]),
    zoom: zoomed(choices.zoom, queries, keys),
  };
}

function paired(against: Choices['against'], other: Side | undefined): Choices['against'] {
  const layer = against ? other?.layers[against[0]] : undefined;
  return layer && against && against[1] < layer.heads.length ? against : null;
}

function longest(sequences: Sequence[]): number {
  return sequences.reduce((most, each) => Math.max(most, each.tokens.length), 1);
}

function within(index: number, length: number): number {
  return Math.max(0, Math.min(index, length - 1));
}

function zoomed(zoom: Choices['zoom'], queries: number, keys: number): Choices['zoom'] {
  if (!zoom) return null;
  const [top, bottom, left, right] = zoom;
  if (top > bottom || left > right || bottom >= queries || right >= keys) return null;
  return top === 0 && left === 0 && bottom === queries - 1 && right === keys - 1 ? null : zoom;
}
