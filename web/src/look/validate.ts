// Checks a header before anything relies on it: a capture can come from anywhere.
// A missing field is set to null, so that everyone else needs to think of one case only.

import { size } from './decode';
import { fail } from './failure';
import type { ArrayRef, Code, Header, LayerInfo, Sequence, Side } from './format';

export const LARGEST = 2 ** 30; // bytes of an opened block
const DENSEST = 1032; // bytes that one byte of zlib can become
const CODES: Code[] = ['f32', 'u8', 'bits', 'sqrt8', 'sqrt16', 'signed8', 'signed16', 'linear16'];

// Rules: a value in, the same value out, with defaults where something is missing.
type Rule = (raw: unknown, where: string) => unknown;

const shown = (raw: unknown): string => {
  const json = JSON.stringify(raw) ?? 'nothing';
  return json.length > 60 ? `${json.slice(0, 60)}…` : json;
};
const typed = (type: string, name: string): Rule => (raw, where) =>
  typeof raw === type ? raw : fail(`${where}: ${name} was expected, not ${shown(raw)}.`);
const text = typed('string', 'text');
const real: Rule = (raw, where) =>
  Number.isFinite(raw) ? raw : fail(`${where}: a number was expected, not ${shown(raw)}.`);
const flag = typed('boolean', 'true or false');
const notNegative: Rule = (raw, where) =>
  (real(raw, where) as number) >= 0 ? raw : fail(`${where}: ${shown(raw)} where 0 or more was expected.`);
const whole = (least: number, most: number): Rule => (raw, where) => {
  const value = real(raw, where) as number;
  const fits = Number.isInteger(value) && value >= least && value <= most;
  return fits ? value : fail(`${where}: ${shown(raw)} where ${least} to ${most} was expected.`);
};
const among = (...values: string[]): Rule => (raw, where) =>
  values.includes(raw as string) ? raw : fail(`${where} ${shown(raw)}; it can be ${values.join(', ')}.`);
const list = (each: Rule): Rule => (raw, where) =>
  Array.isArray(raw)
    ? raw.map((one, i) => each(one, `${where} ${i}`))
    : fail(`${where}: a list was expected.`);
const maybe = (rule: Rule, missing: unknown = null): Rule => (raw, where) =>
  raw === undefined || raw === null ? structuredClone(missing) : rule(raw, where);
const isObject = (raw: unknown): raw is Record<string, unknown> =>
  typeof raw === 'object' && raw !== null && !Array.isArray(raw);
const named = (each: Rule): Rule => (raw, where) => {
  if (!isObject(raw)) return fail(`${where}: an object was expected.`);
  for (const [name, one] of Object.entries(raw)) each(one, `${where} ${name}`);
  return raw;
};
const fields = (rules: Record<string, Rule>): Rule => (raw, where) => {
  if (!isObject(raw)) return fail(`${where}: an object was expected.`);
  for (const [name, rule] of Object.entries(rules)) {
    const value = rule(raw[name], `${where}, ${name}`);
    if (value !== undefined) raw[name] = value;
  }
  return raw;
};

const ARRAY = fields({
  block: real,
  offset: whole(0, LARGEST),
  shape: list(whole(1, 2 ** 24)),
  code: among(...CODES),
  error: maybe(real, 0),
});
const PATTERNS = list(fields({ label: text, scores: named(real) }));
const SEQUENCE = fields({
  name: text,
  tokens: list(fields({ text, word: real, special: flag })),
  segments: maybe(list(real)),
  prompt: maybe(real),
  image: maybe(
    fields({
      width: whole(1, 2 ** 15),
      height: whole(1, 2 ** 15),
      rows: whole(1, 2 ** 16),
      columns: whole(1, 2 ** 16),
      first: whole(0, 2 ** 24),
      pixels: ARRAY,
    }),
  ),
});
const LAYER = fields({
  name: text,
  mechanism: text,
  note: maybe(text, ''),
  stack: among('encoder', 'decoder'),
  kind: among('self', 'cross'),
  queries: real,
  keys: real,
  heads: list(real),
  all_heads: real,
  signed: flag,
  normalised: flag,
  scale: maybe(real),
  difference: maybe(notNegative),
  excess: maybe(notNegative),
  weights: ARRAY,
  sums: ARRAY,
  norms: maybe(ARRAY),
  q: maybe(ARRAY),
  k: maybe(ARRAY),
  v: maybe(ARRAY),
  bias: maybe(ARRAY),
  mask: maybe(real),
  groups: (raw, where) => (raw === undefined ? raw : list(real)(raw, where)),
  patterns: maybe(PATTERNS, []),
});
const PAIR: Rule = (raw, where) => {
  const [word, probability] = list((each) => each)(raw, where) as unknown[];
  return [text(word, where), real(probability, where)];
};
const SIDE = fields({
  label: text,
  model: fields({
    name: maybe(text, ''),
    kind: maybe(text, ''),
    source: maybe(text, ''),
    parameters: maybe(real, 0),
  }),
  sequences: list(SEQUENCE),
  masks: maybe(list(fields({ causal: flag, allowed: ARRAY })), []),
  layers: list(LAYER),
  small: ARRAY,
  control: maybe(list(PATTERNS)),
  next: maybe(fields({ sequence: real, top: list(list(PAIR)), actual: list(maybe(real)) })),
  flow: (raw, where) =>
    fields({
      target: maybe(text, ''),
      reasons: maybe(named(text), {}),
      layers: maybe(list(real), []),
      rollout: maybe(list(ARRAY)),
      gradient: maybe(list(ARRAY)),
    })(raw ?? {}, where),
});
const HEADER = fields({
  title: text,
  made: maybe(named(text), {}),
  notes: maybe(list(text), []),
  blocks: list(fields({ length: whole(1, LARGEST), size: whole(0, LARGEST) })),
  sides: list(SIDE),
  opening: maybe(fields({ layer: real })),
});

export function validate(raw: unknown): Header {
  if (!isObject(raw) || raw.format !== 'attnlab-capture') fail('This is not an attnlab capture.');
  const { version } = raw as unknown as Header;
  if (version !== 1) fail(`This capture has version ${shown(version)}; this page reads version 1.`);
  const header = HEADER(raw, 'the header') as Header;
  header.blocks.forEach(({ length, size: opened }, i) => {
    if (opened > length * DENSEST + 64)
      fail(`Block ${i} says that ${length} bytes become ${opened}; zlib cannot do that.`);
  });
  const { sides, opening } = header;
  if (sides.length < 1 || sides.length > 2)
    fail(`A capture has 1 or 2 sides, not ${sides.length}.`);
  sides.forEach((side, i) => checkSide(side, `side ${i}`, header.blocks));
  if (opening) {
    if (typeof opening.view !== 'string' || !/^[a-z]{1,20}$/.test(opening.view))
      fail(`opening: view ${shown(opening.view)}.`);
    index(opening.layer, sides[0].layers, 'opening, layer');
  }
  return header;
}

// What fields say of each other.

type Blocks = Header['blocks'];

const exactly = (value: number, expected: number, where: string): void => {
  if (value !== expected) fail(`${where}: ${value} where ${expected} was expected.`);
};

const index = <T>(place: number, all: T[], where: string): T =>
  all[whole(0, all.length - 1)(place, where) as number];

function checkSide(side: Side, where: string, blocks: Blocks): void {
  side.sequences.forEach((each, i) => checkSequence(each, `${where}, sequence ${i}`, blocks));
  side.masks.forEach(({ allowed }, i) =>
    checkArray(allowed, `${where}, mask ${i}`, [null, null], blocks, ['bits', 'u8']),
  );
  side.layers.forEach((each, i) => checkLayer(each, `${where}, layer ${i}`, side, blocks));
  const maps = side.layers.reduce((total, each) => total + each.heads.length, 0);
  checkArray(side.small, `${where}, small maps`, [maps, null, null], blocks);
  if (side.next) {
    const { tokens } = index(side.next.sequence, side.sequences, `${where}, next, sequence`);
    exactly(side.next.top.length, tokens.length, `${where}, next, top`);
    exactly(side.next.actual.length, tokens.length, `${where}, next, actual`);
  }
  side.flow.layers.forEach((each) => index(each, side.layers, `${where}, flow, layer`));
  for (const name of ['rollout', 'gradient'] as const) {
    const all = side.flow[name];
    if (all) exactly(all.length, side.flow.layers.length, `${where}, ${name}`);
    all?.forEach((each) => checkArray(each, `${where}, ${name}`, [null, null], blocks));
  }
}

function checkSequence(one: Sequence, where: string, blocks: Blocks): void {
  const { tokens, segments, prompt, image } = one;
  if (tokens.length < 1) fail(`${where} has no tokens.`);
  if (segments) exactly(segments.length, tokens.length, `${where}, segments`);
  if (prompt !== null) whole(0, tokens.length)(prompt, `${where}, prompt`);
  if (!image) return;
  const patches = image.rows * image.columns;
  if (image.first + patches > tokens.length)
    fail(`${where}: ${patches} patches, but ${tokens.length} tokens.`);
  checkArray(image.pixels, `${where}, pixels`, [image.height, image.width, 3], blocks, ['u8']);
}

function checkLayer(it: LayerInfo, where: string, side: Side, blocks: Blocks): void {
  const T = index(it.queries, side.sequences, `${where}, queries`).tokens.length;
  const S = index(it.keys, side.sequences, `${where}, keys`).tokens.length;
  const H = it.heads.length;
  if (H < 1) fail(`${where} has no heads.`);
  whole(H, 2 ** 20)(it.all_heads, `${where}, all heads`);
  it.heads.forEach((each) => whole(0, it.all_heads - 1)(each, `${where}, a head`));
  const shapes = {
    weights: [H, T, S], sums: [H, T], norms: [H, S],
    q: [H, T, null], k: [null, S, null], v: [null, S, null], bias: [null, T, S],
  } as const; // prettier-ignore
  for (const [name, shape] of Object.entries(shapes)) {
    const ref = it[name as keyof typeof shapes];
    if (ref) checkArray(ref, `${where}, ${name}`, shape, blocks);
  }
  if (it.bias && it.bias.shape[0] !== 1) exactly(it.bias.shape[0], H, `${where}, bias`);
  const [group] = (it.k ?? it.v)?.shape ?? [];
  if (it.k && it.v) exactly(it.v.shape[0], it.k.shape[0], `${where}, heads of v`);
  if (group && it.groups) {
    exactly(it.groups.length, H, `${where}, groups`);
    it.groups.forEach((each) => whole(0, group - 1)(each, `${where}, a group`));
  }
  if (it.q && it.k) exactly(it.k.shape[2], it.q.shape[2], `${where}, size of k`);
  if (it.mask !== null) {
    const { shape } = index(it.mask, side.masks, `${where}, mask`).allowed;
    exactly(shape[0], T, `${where}, rows of the mask`);
    exactly(shape[1], S, `${where}, columns of the mask`);
  }
  if (!it.patterns.length) it.patterns = it.heads.map(() => ({ label: '', scores: {} }));
  exactly(it.patterns.length, H, `${where}, patterns`);
}

function checkArray(
  ref: ArrayRef,
  where: string,
  shape: readonly (number | null)[],
  blocks: Blocks,
  codes = CODES,
): void {
  among(...codes)(ref.code, `${where}: code`);
  if (ref.shape.length !== shape.length || shape.some((each, i) => each !== null && each !== ref.shape[i])) {
    const wanted = shape.map((each) => each ?? 'any').join(', ');
    fail(`${where}: shape (${ref.shape.join(', ')}) where (${wanted}) was expected.`);
  }
  const { size: room } = index(ref.block, blocks, `${where}, block`);
  const bytes = size(ref);
  if (!(ref.offset + bytes <= room))
    fail(`${where}: ${bytes} bytes from ${ref.offset} on do not fit in block ${ref.block}, which has ${room}.`);
}
