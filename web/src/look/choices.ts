// Everything the user has selected. The URL fragment stores it, so that a link restores it.

import { encodeText, parseFields } from '../shared/address-fields';
import type { Header, Sequence, Side } from './capture-format';

export interface Choices {
  view: string;
  side: number;
  layer: number; // index in side.layers
  heads: number[]; // indices among the layer's captured heads; empty means all
  mean: boolean; // show the mean of the heads instead of each head
  queries: number[]; // selected query tokens; several are summed
  key: number | null; // focused key token
  scale: 'linear' | 'sqrt' | 'log';
  threshold: number; // smaller weights are hidden
  top: number; // largest weights shown per query; 0 shows all
  first: 'show' | 'hide' | 'renormalize'; // what to do with the first token, a common attention sink
  separators: 'show' | 'hide' | 'renormalize';
  words: boolean; // merge sub-words into words
  search: string;
  weighting: 'weights' | 'norms'; // weights, or weights times the norm of the value
  order: 'layer' | 'pattern' | 'change'; // of the small maps in the model view
  step: number | null; // position of the generated token that is shown
  flow: 'rollout' | 'gradient';
  off: number[]; // effect view: heads that are switched off, counted through all layers
  // compare view: layer and head of the other side; null selects the corresponding ones
  against: [number, number] | null;
  // matrix view: first and last query, first and last key
  zoom: [number, number, number, number] | null;
  stage: number; // walkthrough: the step that is shown
  temperature: number; // walkthrough: of the softmax
  vectors: 'pair' | 'keys' | 'texts'; // neurons: one key, all keys, or the keys of two texts
  table: boolean; // show the table instead of the drawing
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
  off: [],
  against: null,
  zoom: null,
  stage: 0,
  temperature: 1,
  vectors: 'pair',
  table: false,
};

export const [MIN_TEMPERATURE, MAX_TEMPERATURE] = [0.125, 8];

const MAX_SEARCH_LENGTH = 200; // characters
const MAX_INDICES = 4096; // indices in a set
const MAX_INDEX = 2 ** 24;
export const MAX_STAGES = 9; // of the walkthrough

const OPTIONS = {
  scale: ['linear', 'sqrt', 'log'],
  first: ['show', 'hide', 'renormalize'],
  separators: ['show', 'hide', 'renormalize'],
  weighting: ['weights', 'norms'],
  order: ['layer', 'pattern', 'change'],
  flow: ['rollout', 'gradient'],
  vectors: ['pair', 'keys', 'texts'],
} as const;

type ChoiceName = keyof Choices;

// The choices before the user changes anything: the header can name a view, a layer, a head and a
// query.
export function initialChoices(header: Header): Choices {
  if (!header.opening) return DEFAULTS;
  const { view, layer, head, query } = header.opening;
  return {
    ...DEFAULTS,
    view,
    layer,
    heads: head === null ? [] : [head],
    queries: query === null ? [] : [query],
  };
}

// An address with nothing but a view shows that view of the head and the token that the page opens with.
// Any other holds all that differs from DEFAULTS, so that a link never mixes with them.
export function formatAddress(choices: Choices, initial: Choices): string {
  const ownView = formatFragment(choices, { ...initial, view: choices.view }) === '';
  if (ownView) return choices.view === initial.view ? '' : `view=${choices.view}`;
  const text = formatFragment(choices);
  return /^(view=\w+)?$/.test(text) ? `${text || `view=${DEFAULTS.view}`}&layer=${choices.layer}` : text;
}

export function parseAddress(fragment: string, initial: Choices): Choices {
  const names = [...parseFields(fragment).keys()].filter((name) => Object.hasOwn(DEFAULTS, name));
  const start = names.every((name) => name === 'view') ? initial : DEFAULTS;
  return names.length ? parseFragment(fragment, start) : initial;
}

// Formats choices like "view=matrix&layer=3&heads=0-2.5": only those that differ from `defaults`, always
// in the same order.
export function formatFragment(choices: Choices, defaults: Choices = DEFAULTS): string {
  const parts: string[] = [];
  for (const name of Object.keys(DEFAULTS) as ChoiceName[]) {
    const text = formatValue(name, choices[name]);
    if (text !== formatValue(name, defaults[name])) parts.push(`${name}=${text}`);
  }
  return parts.join('&');
}

function formatValue(name: ChoiceName, value: Choices[ChoiceName]): string {
  if (value === null) return '';
  if (Array.isArray(value))
    return isIndexSet(name) ? formatRanges(value as number[]) : value.join('.');
  if (typeof value === 'boolean') return value ? '1' : '0';
  return encodeText(String(value));
}

const isIndexSet = (name: ChoiceName): boolean => ['heads', 'queries', 'off'].includes(name);

// Writes consecutive numbers as "3-7".
function formatRanges(numbers: number[]): string {
  const parts: string[] = [];
  for (let i = 0; i < numbers.length; i += 1) {
    const first = i;
    while (i + 1 < numbers.length && numbers[i + 1] === numbers[i] + 1) i += 1;
    parts.push(i > first ? `${numbers[first]}-${numbers[i]}` : String(numbers[first]));
  }
  return parts.join('.');
}

// Ignores unknown names and invalid values.
export function parseFragment(fragment: string, defaults: Choices = DEFAULTS): Choices {
  const choices: Choices = { ...defaults };
  for (const [name, text] of parseFields(fragment)) {
    if (!Object.hasOwn(DEFAULTS, name)) continue;
    const value = parseValue(name as ChoiceName, text);
    if (value !== undefined) Object.assign(choices, { [name]: value });
  }
  return choices;
}

function parseValue(name: ChoiceName, text: string): Choices[ChoiceName] | undefined {
  if (name === 'view') return /^[a-z]{1,20}$/.test(text) ? text : undefined;
  if (name === 'search') return text.slice(0, MAX_SEARCH_LENGTH);
  if (name in OPTIONS) {
    const options: readonly string[] = OPTIONS[name as keyof typeof OPTIONS];
    return options.includes(text) ? (text as Choices['scale']) : undefined;
  }
  if (isIndexSet(name)) return parseIndices(text);
  if (name === 'zoom') return parseTuple(text, 4) as Choices['zoom'] | undefined;
  if (name === 'against') return parseTuple(text, 2) as Choices['against'] | undefined;
  if (typeof DEFAULTS[name] === 'boolean')
    return text === '1' ? true : text === '0' ? false : undefined;
  if (name === 'threshold') return parseNumber(text, 0, 1);
  if (name === 'temperature') return parseNumber(text, MIN_TEMPERATURE, MAX_TEMPERATURE);
  return parseIndex(text);
}

function parseNumber(text: string, min: number, max: number): number | undefined {
  const value = /^\d*\.?\d+(e-?\d{1,3})?$/.test(text) ? Number(text) : NaN;
  return value >= min && value <= max ? value : undefined;
}

function parseIndex(text: string): number | undefined {
  return /^\d{1,8}$/.test(text) && Number(text) <= MAX_INDEX ? Number(text) : undefined;
}

function parseTuple(text: string, length: number): number[] | undefined {
  const numbers = text.split('.').map(parseIndex);
  const isValid = numbers.length === length && numbers.every((each) => each !== undefined);
  return isValid ? (numbers as number[]) : undefined;
}

function parseIndices(text: string): number[] {
  const indices = new Set<number>();
  for (const part of text.split('.')) {
    const [first, last = first] = part.split('-').map(parseIndex);
    if (first === undefined || last === undefined) continue;
    for (let i = first; i <= last && indices.size < MAX_INDICES; i += 1) indices.add(i);
  }
  return [...indices].sort((one, other) => one - other);
}

// Clamps indices to the capture and drops selections that the chosen layer does not have.
export function clampChoices(choices: Choices, header: Header): Choices {
  const side = clampIndex(choices.side, header.sides.length);
  const { layers, sequences } = header.sides[side];
  const layer = clampIndex(choices.layer, layers.length);
  const info = layers[layer];
  const queries = info ? sequences[info.queries].tokens.length : 0;
  const keys = info ? sequences[info.keys].tokens.length : 0;
  const heads = info ? choices.heads.filter((each) => each < info.heads.length) : [];
  const allHeads = info && heads.length === info.heads.length;
  return {
    ...choices,
    side,
    layer,
    heads: allHeads ? [] : heads,
    queries: choices.queries.filter((each) => each < queries),
    off: choices.off.filter((each) => each < countHeads(header.sides[side])),
    key: choices.key !== null && choices.key < keys ? choices.key : null,
    // the last step is the prediction after the text
    step: choices.step === null ? null : clampIndex(choices.step, maxLength(sequences) + 1),
    against: validAgainst(choices.against, header.sides[1 - side]),
    zoom: validZoom(choices.zoom, queries, keys),
    stage: clampIndex(choices.stage, MAX_STAGES),
  };
}

function countHeads({ layers }: Side): number {
  return layers.reduce((total, layer) => total + layer.heads.length, 0);
}

function validAgainst(against: Choices['against'], other: Side | undefined): Choices['against'] {
  const layer = against ? other?.layers[against[0]] : undefined;
  return layer && against && against[1] < layer.heads.length ? against : null;
}

function maxLength(sequences: Sequence[]): number {
  return sequences.reduce((longest, each) => Math.max(longest, each.tokens.length), 1);
}

function clampIndex(index: number, length: number): number {
  return Math.max(0, Math.min(index, length - 1));
}

function validZoom(zoom: Choices['zoom'], queries: number, keys: number): Choices['zoom'] {
  if (!zoom) return null;
  const [top, bottom, left, right] = zoom;
  if (top > bottom || left > right || bottom >= queries || right >= keys) return null;
  return top === 0 && left === 0 && bottom === queries - 1 && right === keys - 1 ? null : zoom;
}
