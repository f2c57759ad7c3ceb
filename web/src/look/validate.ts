// Checks a header before anything relies on it: a capture can come from anywhere.
// What may be missing is set to null, so that everyone else needs to think of one case only.

import { size } from './decode';
import { fail } from './failure';
import type {
  ArrayRef,
  Code,
  Flow,
  Header,
  LayerInfo,
  Next,
  Pattern,
  Sequence,
  Side,
} from './format';

export const LARGEST = 2 ** 30; // bytes of an opened block
const DENSEST = 1032; // bytes that one byte of zlib can become
const CODES: Code[] = ['f32', 'u8', 'bits', 'sqrt8', 'sqrt16', 'signed8', 'signed16', 'linear16'];

type Fields = Record<string, unknown>;
type Blocks = Header['blocks'];

export function validate(raw: unknown): Header {
  const header = fields(raw, 'the header');
  if (header.format !== 'attnlab-capture') fail('This is not an attnlab capture.');
  if (header.version !== 1) {
    fail(`This capture has version ${shown(header.version)}; this page reads version 1.`);
  }
  text(header.title, 'title');
  header.made = fields(header.made ?? {}, 'made');
  for (const [name, each] of Object.entries(header.made as Fields)) text(each, `made ${name}`);
  list((header.notes ??= []), 'notes').forEach((each) => text(each, 'a note'));
  const blocks = list(header.blocks, 'blocks').map(block);
  const sides = list(header.sides, 'sides');
  if (sides.length < 1 || sides.length > 2)
    fail(`A capture has 1 or 2 sides, not ${sides.length}.`);
  sides.forEach((each, i) => side(each, `side ${i}`, blocks));
  if ((header.opening ??= null) !== null) opening(header.opening, (sides[0] as Side).layers.length);
  return raw as Header;
}

function opening(raw: unknown, layers: number): void {
  const { view, layer } = fields(raw, 'opening');
  if (typeof view !== 'string' || !/^[a-z]{1,20}$/.test(view)) fail(`opening: view ${shown(view)}.`);
  whole(layer, 'opening, layer', 0, layers - 1);
}

function block(raw: unknown, i: number): Blocks[number] {
  const { length, size: opened } = fields(raw, `block ${i}`);
  const short = whole(length, `length of block ${i}`, 1, LARGEST);
  const long = whole(opened, `size of block ${i}`, 0, LARGEST);
  if (long > short * DENSEST + 64) {
    fail(`Block ${i} says that ${short} bytes become ${long}; zlib cannot do that.`);
  }
  return { length: short, size: long };
}

function side(raw: unknown, where: string, blocks: Blocks): void {
  const one = fields(raw, where);
  text(one.label, `${where}, label`);
  const model = fields(one.model, `${where}, model`);
  for (const name of ['name', 'kind', 'source'])
    text((model[name] ??= ''), `${where}, model ${name}`);
  real((model.parameters ??= 0), `${where}, parameters`);
  const sequences = list(one.sequences, `${where}, sequences`);
  sequences.forEach((each, i) => sequence(each, `${where}, sequence ${i}`, blocks));
  const masks = list((one.masks ??= []), `${where}, masks`);
  masks.forEach((each, i) => {
    const mask = fields(each, `${where}, mask ${i}`);
    flag(mask.causal, `${where}, mask ${i}, causal`);
    array(mask.allowed, `${where}, mask ${i}`, [null, null], blocks, ['bits', 'u8']);
  });
  const layers = list(one.layers, `${where}, layers`);
  layers.forEach((each, i) => layer(each, `${where}, layer ${i}`, one as unknown as Side, blocks));
  const known = one as unknown as Side;
  rest(known, where, blocks);
}

function rest(one: Side, where: string, blocks: Blocks): void {
  const maps = one.layers.reduce((total, each) => total + each.heads.length, 0);
  const small = array(one.small, `${where}, small maps`, [null, null, null], blocks);
  if (small.shape[0] !== maps) {
    fail(`${where}: ${small.shape[0]} small maps for ${maps} heads.`);
  }
  one.control ??= null;
  if (one.control !== null) {
    list(one.control, `${where}, control`).forEach((each) =>
      patterns(each, `${where}, control`, null),
    );
  }
  one.next ??= null;
  if (one.next !== null) next(one.next, `${where}, next`, one.sequences);
  flow((one.flow ??= {} as Flow), `${where}, flow`, one.layers.length, blocks);
}

function sequence(raw: unknown, where: string, blocks: Blocks): void {
  const one = fields(raw, where) as unknown as Sequence;
  text(one.name, `${where}, name`);
  const tokens = list(one.tokens, `${where}, tokens`);
  if (tokens.length < 1) fail(`${where} has no tokens.`);
  tokens.forEach((each, i) => {
    const token = fields(each, `${where}, token ${i}`);
    text(token.text, `${where}, token ${i}`);
    real(token.word, `${where}, token ${i}, word`);
    flag(token.special, `${where}, token ${i}, special`);
  });
  one.segments ??= null;
  if (one.segments !== null) {
    exactly(list(one.segments, `${where}, segments`).length, tokens.length, `${where}, segments`);
    one.segments.forEach((each) => real(each, `${where}, segments`));
  }
  one.prompt ??= null;
  if (one.prompt !== null) whole(one.prompt, `${where}, prompt`, 0, tokens.length);
  one.image ??= null;
  if (one.image === null) return;
  const { width, height, rows, columns, first, pixels } = fields(one.image, `${where}, image`);
  const patches =
    whole(rows, `${where}, rows`, 1, 2 ** 16) * whole(columns, `${where}, columns`, 1, 2 ** 16);
  if (whole(first, `${where}, first`, 0, tokens.length) + patches > tokens.length) {
    fail(`${where}: ${patches} patches, but ${tokens.length} tokens.`);
  }
  const shape = [
    whole(height, `${where}, height`, 1, 2 ** 15),
    whole(width, `${where}, width`, 1, 2 ** 15),
    3,
  ];
  array(pixels, `${where}, pixels`, shape, blocks, ['u8']);
}

function layer(raw: unknown, where: string, one: Side, blocks: Blocks): void {
  const it = fields(raw, where) as unknown as LayerInfo;
  text(it.name, `${where}, name`);
  text(it.mechanism, `${where}, mechanism`);
  text((it.note ??= ''), `${where}, note`);
  if (it.stack !== 'encoder' && it.stack !== 'decoder') fail(`${where}: stack ${shown(it.stack)}.`);
  if (it.kind !== 'self' && it.kind !== 'cross') fail(`${where}: kind ${shown(it.kind)}.`);
  const last = one.sequences.length - 1;
  const T = one.sequences[whole(it.queries, `${where}, queries`, 0, last)].tokens.length;
  const S = one.sequences[whole(it.keys, `${where}, keys`, 0, last)].tokens.length;
  const H = list(it.heads, `${where}, heads`).length;
  if (H < 1) fail(`${where} has no heads.`);
  whole(it.all_heads, `${where}, all heads`, H, 2 ** 20);
  it.heads.forEach((each) => whole(each, `${where}, a head`, 0, it.all_heads - 1));
  flag(it.signed, `${where}, signed`);
  flag(it.normalised, `${where}, normalised`);
  if ((it.scale ??= null) !== null) real(it.scale, `${where}, scale`);
  for (const name of ['difference', 'excess'] as const) {
    if ((it[name] ??= null) !== null) notNegative(it[name], `${where}, ${name}`);
  }
  array(it.weights, `${where}, weights`, [H, T, S], blocks);
  array(it.sums, `${where}, sums`, [H, T], blocks);
  const parts: ['norms' | 'q' | 'k' | 'v' | 'bias', (number | null)[]][] = [
    ['norms', [H, S]],
    ['q', [H, T, null]],
    ['k', [null, S, null]],
    ['v', [null, S, null]],
    ['bias', [null, T, S]],
  ];
  for (const [name, shape] of parts) {
    if ((it[name] ??= null) !== null) array(it[name], `${where}, ${name}`, shape, blocks);
  }
  if (it.bias && it.bias.shape[0] !== 1) exactly(it.bias.shape[0], H, `${where}, bias`);
  const groups = it.k ?? it.v;
  if (it.k && it.v) exactly(it.v.shape[0], it.k.shape[0], `${where}, heads of v`);
  if (groups && it.groups !== undefined) {
    exactly(list(it.groups, `${where}, groups`).length, H, `${where}, groups`);
    it.groups.forEach((each) => whole(each, `${where}, a group`, 0, groups.shape[0] - 1));
  }
  if (it.q && it.k) exactly(it.k.shape[2], it.q.shape[2], `${where}, size of k`);
  if ((it.mask ??= null) !== null) {
    const mask = one.masks[whole(it.mask, `${where}, mask`, 0, one.masks.length - 1)];
    exactly(mask.allowed.shape[0], T, `${where}, rows of the mask`);
    exactly(mask.allowed.shape[1], S, `${where}, columns of the mask`);
  }
  it.patterns ??= [];
  if (list(it.patterns, `${where}, patterns`).length === 0) {
    it.patterns = it.heads.map(() => ({ label: '', scores: {} }));
  }
  patterns(it.patterns, where, H);
}

function patterns(raw: unknown, where: string, length: number | null): void {
  const all = list(raw, `${where}, patterns`);
  if (length !== null) exactly(all.length, length, `${where}, patterns`);
  all.forEach((each) => {
    const one = fields(each, `${where}, a pattern`) as unknown as Pattern;
    text(one.label, `${where}, label of a pattern`);
    const scores = fields(one.scores, `${where}, scores of a pattern`);
    Object.values(scores).forEach((score) => real(score, `${where}, score of a pattern`));
  });
}

function next(raw: Next, where: string, sequences: Sequence[]): void {
  fields(raw, where);
  const length =
    sequences[whole(raw.sequence, `${where}, sequence`, 0, sequences.length - 1)].tokens.length;
  exactly(list(raw.top, `${where}, top`).length, length, `${where}, top`);
  raw.top.forEach((each) =>
    list(each, `${where}, top`).forEach((pair) => {
      const [word, probability] = list(pair, `${where}, top`);
      text(word, `${where}, word`);
      real(probability, `${where}, probability`);
    }),
  );
  exactly(list(raw.actual, `${where}, actual`).length, length, `${where}, actual`);
  raw.actual.forEach((each) => each === null || real(each, `${where}, actual`));
}

function flow(raw: Flow, where: string, layers: number, blocks: Blocks): void {
  fields(raw, where);
  text((raw.target ??= ''), `${where}, target`);
  fields((raw.reasons ??= {}), `${where}, reasons`);
  Object.values(raw.reasons).forEach((each) => text(each, `${where}, reason`));
  list((raw.layers ??= []), `${where}, layers`);
  raw.layers.forEach((each) => whole(each, `${where}, layer`, 0, layers - 1));
  for (const name of ['rollout', 'gradient'] as const) {
    if ((raw[name] ??= null) === null) continue;
    const all = list(raw[name], `${where}, ${name}`);
    exactly(all.length, raw.layers.length, `${where}, ${name}`);
    all.forEach((each) => array(each, `${where}, ${name}`, [null, null], blocks));
  }
}

function array(
  raw: unknown,
  where: string,
  shape: (number | null)[],
  blocks: Blocks,
  codes: Code[] = CODES,
): ArrayRef {
  const ref = fields(raw, where) as unknown as ArrayRef;
  if (!codes.includes(ref.code))
    fail(`${where}: code ${shown(ref.code)}; it can be ${codes.join(', ')}.`);
  const axes = list(ref.shape, `${where}, shape`).map((each) =>
    whole(each, `${where}, shape`, 1, 2 ** 24),
  );
  if (axes.length !== shape.length || shape.some((each, i) => each !== null && each !== axes[i])) {
    const wanted = shape.map((each) => each ?? 'any').join(', ');
    fail(`${where}: shape (${axes.join(', ')}) where (${wanted}) was expected.`);
  }
  const index = whole(ref.block, `${where}, block`, 0, blocks.length - 1);
  const offset = whole(ref.offset, `${where}, offset`, 0, LARGEST);
  const bytes = size(ref);
  if (!(offset + bytes <= blocks[index].size)) {
    fail(
      `${where}: ${bytes} bytes from ${offset} on do not fit in block ${index}, ` +
        `which has ${blocks[index].size}.`,
    );
  }
  real((ref.error ??= 0), `${where}, error`);
  return ref;
}

function fields(raw: unknown, where: string): Fields {
  if (typeof raw !== 'object' || raw === null || Array.isArray(raw))
    fail(`${where}: an object was expected.`);
  return raw as Fields;
}

function list(raw: unknown, where: string): unknown[] {
  if (!Array.isArray(raw)) fail(`${where}: a list was expected.`);
  return raw as unknown[];
}

function text(raw: unknown, where: string): string {
  if (typeof raw !== 'string') fail(`${where}: text was expected, not ${shown(raw)}.`);
  return raw as string;
}

function flag(raw: unknown, where: string): void {
  if (typeof raw !== 'boolean') fail(`${where}: true or false was expected, not ${shown(raw)}.`);
}

function real(raw: unknown, where: string): number {
  if (typeof raw !== 'number' || !Number.isFinite(raw))
    fail(`${where}: a number was expected, not ${shown(raw)}.`);
  return raw as number;
}

function notNegative(raw: unknown, where: string): number {
  const value = real(raw, where);
  if (value < 0) fail(`${where}: ${shown(raw)} where 0 or more was expected.`);
  return value;
}

function whole(raw: unknown, where: string, least: number, most: number): number {
  const value = real(raw, where);
  if (!Number.isInteger(value) || value < least || value > most) {
    fail(`${where}: ${shown(raw)} where ${least} to ${most} was expected.`);
  }
  return value;
}

function exactly(value: number, expected: number, where: string): void {
  if (value !== expected) fail(`${where}: ${value} where ${expected} was expected.`);
}

function shown(raw: unknown): string {
  const json = JSON.stringify(raw) ?? 'nothing';
  return json.length > 60 ? `${json.slice(0, 60)}…` : json;
}
