// Validates a header before any other code reads it, because a capture can come from anywhere.
// Sets missing fields to null, so that other code handles one case only.

import { byteSize } from './decode-arrays';
import { fail } from './capture-error';
import type {
  ArrayRef, Code, Effects, Header, Highlight, LayerInfo, Sequence, Side, Walkthrough,
} from './capture-format';

export const MAX_BLOCK_BYTES = 2 ** 30; // bytes of an inflated block
const MAX_INFLATION = 1032; // bytes that one byte of zlib can inflate to
const CODES: Code[] = ['f32', 'u8', 'bits', 'sqrt8', 'sqrt16', 'signed8', 'signed16', 'linear16'];

// A rule returns the value it gets, with defaults for missing fields, or fails.
type Rule = (raw: unknown, where: string) => unknown;

const describeValue = (raw: unknown): string => {
  const json = JSON.stringify(raw) ?? 'nothing';
  return json.length > 60 ? `${json.slice(0, 60)}…` : json;
};
const ofType = (type: string, name: string): Rule => (raw, where) =>
  typeof raw === type ? raw : fail(`${where}: got ${describeValue(raw)}; it must be ${name}.`);
const text = ofType('string', 'text');
const finiteNumber: Rule = (raw, where) =>
  Number.isFinite(raw) ? raw : fail(`${where}: got ${describeValue(raw)}; it must be a number.`);
const trueOrFalse = ofType('boolean', 'true or false');
const notNegative: Rule = (raw, where) =>
  (finiteNumber(raw, where) as number) >= 0 ? raw
    : fail(`${where}: got ${describeValue(raw)}; it must be 0 or more.`);
const integerBetween = (min: number, max: number): Rule => (raw, where) => {
  const value = finiteNumber(raw, where) as number;
  const fits = Number.isInteger(value) && value >= min && value <= max;
  return fits ? value : fail(`${where}: got ${describeValue(raw)}; it must be ${min} to ${max}.`);
};
const oneOf = (...values: string[]): Rule => (raw, where) =>
  values.includes(raw as string) ? raw
    : fail(`${where}: got ${describeValue(raw)}; it must be one of ${values.join(', ')}.`);
const listOf = (rule: Rule): Rule => (raw, where) =>
  Array.isArray(raw)
    ? raw.map((one, i) => rule(one, `${where} ${i}`))
    : fail(`${where}: it must be a list.`);
const optional = (rule: Rule, fallback: unknown = null): Rule => (raw, where) =>
  raw === undefined || raw === null ? structuredClone(fallback) : rule(raw, where);
const isObject = (raw: unknown): raw is Record<string, unknown> =>
  typeof raw === 'object' && raw !== null && !Array.isArray(raw);
const recordOf = (each: Rule): Rule => (raw, where) => {
  if (!isObject(raw)) return fail(`${where}: it must be an object.`);
  for (const [name, one] of Object.entries(raw)) each(one, `${where} ${name}`);
  return raw;
};
const objectWith = (rules: Record<string, Rule>): Rule => (raw, where) => {
  if (!isObject(raw)) return fail(`${where}: it must be an object.`);
  for (const [name, rule] of Object.entries(rules)) {
    const value = rule(raw[name], `${where}, ${name}`);
    if (value !== undefined) raw[name] = value;
  }
  return raw;
};

const ARRAY = objectWith({
  block: finiteNumber,
  offset: integerBetween(0, MAX_BLOCK_BYTES),
  shape: listOf(integerBetween(1, 2 ** 24)),
  code: oneOf(...CODES),
  error: optional(finiteNumber, 0),
});
const PATTERNS = listOf(objectWith({ label: text, scores: recordOf(finiteNumber) }));
const SEQUENCE = objectWith({
  name: text,
  tokens: listOf(objectWith({ text, word: finiteNumber, special: trueOrFalse })),
  segments: optional(listOf(finiteNumber)),
  prompt: optional(finiteNumber),
  image: optional(
    objectWith({
      width: integerBetween(1, 2 ** 15),
      height: integerBetween(1, 2 ** 15),
      rows: integerBetween(1, 2 ** 16),
      columns: integerBetween(1, 2 ** 16),
      first: integerBetween(0, 2 ** 24),
      pixels: ARRAY,
    }),
  ),
});
const LAYER = objectWith({
  name: text,
  mechanism: text,
  note: optional(text, ''),
  stack: oneOf('encoder', 'decoder'),
  kind: oneOf('self', 'cross'),
  queries: finiteNumber,
  keys: finiteNumber,
  heads: listOf(finiteNumber),
  all_heads: finiteNumber,
  signed: trueOrFalse,
  normalised: trueOrFalse,
  scale: optional(finiteNumber),
  difference: optional(notNegative),
  excess: optional(notNegative),
  weights: ARRAY,
  sums: ARRAY,
  norms: optional(ARRAY),
  q: optional(ARRAY),
  k: optional(ARRAY),
  v: optional(ARRAY),
  bias: optional(ARRAY),
  mask: optional(finiteNumber),
  groups: (raw, where) => (raw === undefined ? raw : listOf(finiteNumber)(raw, where)),
  patterns: optional(PATTERNS, []),
});
const PAIR: Rule = (raw, where) => {
  const [word, probability] = listOf((each) => each)(raw, where) as unknown[];
  return [text(word, where), finiteNumber(probability, where)];
};
const MAX_LAYERS = 4096;
const EFFECTS = objectWith({
  kind: oneOf('next', 'masked', 'classes'),
  sequence: optional(finiteNumber),
  measured: finiteNumber,
  targets: listOf(objectWith({ token: text, probability: notNegative })),
  heads: listOf(optional(ARRAY)),
  keys: optional(objectWith({
    points: listOf(objectWith({ sequence: finiteNumber, position: finiteNumber,
      weight: notNegative, effect: finiteNumber })),
    all_keys: notNegative,
    correlation: optional(finiteNumber),
  })),
  lens: optional(objectWith({
    layers: listOf(text), vocabulary: listOf(text), best: listOf(listOf(finiteNumber)),
    best_probability: ARRAY, target_probability: ARRAY, top: listOf(listOf(PAIR)),
  })),
  patching: optional(objectWith({
    layers: listOf(text), clean_tokens: listOf(text), corrupted_tokens: listOf(text),
    restored: ARRAY, clean: finiteNumber, corrupted: finiteNumber, description: text,
  })),
  reasons: optional(recordOf(text), {}),
});
const TRIPLE: Rule = (raw, where) => {
  const [word, logit, probability] = listOf((each) => each)(raw, where) as unknown[];
  return [text(word, where), finiteNumber(logit, where), notNegative(probability, where)];
};
const WALKTHROUGH = objectWith({
  layer: finiteNumber, query: finiteNumber, head: finiteNumber, block: notNegative,
  blocks: notNegative, rotary: trueOrFalse, norm_first: trueOrFalse,
  embedding: optional(ARRAY), input: optional(ARRAY), q: optional(ARRAY), dots: optional(ARRAY),
  bias: optional(ARRAY), k: optional(ARRAY), v: optional(ARRAY), outputs: optional(ARRAY),
  added: optional(ARRAY), hidden: optional(ARRAY), stream: optional(ARRAY),
  key_heads: listOf(finiteNumber),
  parts: listOf(oneOf('self', 'cross', 'feed_forward')),
  top: listOf(TRIPLE),
  reasons: optional(recordOf(text), {}),
});
const SIDE = objectWith({
  label: text,
  model: objectWith({
    name: optional(text, ''),
    kind: optional(text, ''),
    source: optional(text, ''),
    parameters: optional(finiteNumber, 0),
  }),
  sequences: listOf(SEQUENCE),
  masks: optional(listOf(objectWith({ causal: trueOrFalse, allowed: ARRAY })), []),
  layers: listOf(LAYER),
  small: ARRAY,
  effects: optional(EFFECTS),
  walkthrough: optional(WALKTHROUGH),
  control: optional(listOf(PATTERNS)),
  next: optional(objectWith({ sequence: finiteNumber, top: listOf(listOf(PAIR)),
    actual: listOf(optional(finiteNumber)) })),
  flow: (raw, where) =>
    objectWith({
      target: optional(text, ''),
      reasons: optional(recordOf(text), {}),
      layers: optional(listOf(finiteNumber), []),
      rollout: optional(listOf(ARRAY)),
      gradient: optional(listOf(ARRAY)),
    })(raw ?? {}, where),
});
const HEADER = objectWith({
  title: text,
  made: optional(recordOf(text), {}),
  notes: optional(listOf(text), []),
  blocks: listOf(objectWith({ length: integerBetween(1, MAX_BLOCK_BYTES),
    size: integerBetween(0, MAX_BLOCK_BYTES) })),
  sides: listOf(SIDE),
  opening: optional(objectWith({ layer: finiteNumber, head: optional(finiteNumber),
    query: optional(finiteNumber) })),
  highlights: optional(listOf(objectWith({ layer: finiteNumber, head: finiteNumber,
    query: finiteNumber, key: finiteNumber, weight: notNegative, pattern: text })), []),
});

export function validate(raw: unknown): Header {
  if (!isObject(raw) || raw.format !== 'attnlab-capture') fail('This is not an attnlab capture.');
  const { version } = raw as unknown as Header;
  if (version !== 1) fail(`This capture has format version ${describeValue(version)}; this page reads version 1.`);
  const header = HEADER(raw, 'the header') as Header;
  header.blocks.forEach(({ length, size: inflated }, i) => {
    if (inflated > length * MAX_INFLATION + 64)
      fail(`Block ${i} claims that ${length} bytes inflate to ${inflated}; zlib cannot do that.`);
  });
  const { sides, opening } = header;
  if (sides.length < 1 || sides.length > 2)
    fail(`A capture must have 1 or 2 sides, not ${sides.length}.`);
  sides.forEach((side, i) => checkSide(side, `side ${i}`, header.blocks));
  if (opening) {
    if (typeof opening.view !== 'string' || !/^[a-z]{1,20}$/.test(opening.view))
      fail(`opening.view is ${describeValue(opening.view)}; it must be lower-case letters.`);
    const { heads, queries } = elementAt(opening.layer, sides[0].layers, 'opening, layer');
    if (opening.head !== null) elementAt(opening.head, heads, 'opening, head');
    if (opening.query !== null)
      elementAt(opening.query, sides[0].sequences[queries].tokens, 'opening, query');
  }
  header.highlights.forEach((each, i) => checkHighlight(each, `highlight ${i}`, sides[0]));
  return header;
}

function checkHighlight(highlight: Highlight, where: string, side: Side): void {
  const { heads, queries, keys } = elementAt(highlight.layer, side.layers, `${where}, layer`);
  elementAt(highlight.head, heads, `${where}, head`);
  elementAt(highlight.query, side.sequences[queries].tokens, `${where}, query`);
  elementAt(highlight.key, side.sequences[keys].tokens, `${where}, key`);
}

// Consistency between fields.

type Blocks = Header['blocks'];

const requireEqual = (value: number, expected: number, where: string): void => {
  if (value !== expected) fail(`${where}: got ${value}; it must be ${expected}.`);
};

const elementAt = <T>(index: number, all: T[], where: string): T =>
  all[integerBetween(0, all.length - 1)(index, where) as number];

function checkSide(side: Side, where: string, blocks: Blocks): void {
  side.sequences.forEach((each, i) => checkSequence(each, `${where}, sequence ${i}`, blocks));
  side.masks.forEach(({ allowed }, i) =>
    checkArray(allowed, `${where}, mask ${i}`, [null, null], blocks, ['bits', 'u8']),
  );
  side.layers.forEach((each, i) => checkLayer(each, `${where}, layer ${i}`, side, blocks));
  const maps = side.layers.reduce((total, each) => total + each.heads.length, 0);
  checkArray(side.small, `${where}, small maps`, [maps, null, null], blocks);
  if (side.next) {
    const { tokens } = elementAt(side.next.sequence, side.sequences, `${where}, next, sequence`);
    requireEqual(side.next.top.length, tokens.length, `${where}, next, top`);
    requireEqual(side.next.actual.length, tokens.length, `${where}, next, actual`);
  }
  if (side.walkthrough) checkWalkthrough(side.walkthrough, `${where}, walkthrough`, side, blocks);
  if (side.effects) checkEffects(side.effects, `${where}, effects`, side, blocks);
  side.flow.layers.forEach((each) => elementAt(each, side.layers, `${where}, flow, layer`));
  for (const name of ['rollout', 'gradient'] as const) {
    const all = side.flow[name];
    if (all) requireEqual(all.length, side.flow.layers.length, `${where}, ${name}`);
    all?.forEach((each) => checkArray(each, `${where}, ${name}`, [null, null], blocks));
  }
}

function checkEffects(effects: Effects, where: string, side: Side, blocks: Blocks): void {
  const { sequence, targets, keys, lens, patching } = effects;
  const P = sequence === null ? 1
    : elementAt(sequence, side.sequences, `${where}, sequence`).tokens.length;
  if ((sequence === null) !== (effects.kind === 'classes'))
    fail(`${where}, sequence: it must be null for classes, and only for them.`);
  requireEqual(targets.length, P, `${where}, targets`);
  elementAt(effects.measured, targets, `${where}, measured`);
  requireEqual(effects.heads.length, side.layers.length, `${where}, heads`);
  effects.heads.forEach((ref, i) => {
    if (ref) checkArray(ref, `${where}, heads ${i}`, [side.layers[i].heads.length, P], blocks);
  });
  keys?.points.forEach((point, i) => {
    const at = elementAt(point.sequence, side.sequences, `${where}, key ${i}, sequence`);
    elementAt(point.position, at.tokens, `${where}, key ${i}, position`);
  });
  if (lens) {
    const L = integerBetween(1, MAX_LAYERS)(lens.layers.length, `${where}, lens, layers`) as number;
    requireEqual(lens.best.length, L, `${where}, lens, best`);
    requireEqual(lens.top.length, L, `${where}, lens, top`);
    lens.best.forEach((row, i) => {
      requireEqual(row.length, P, `${where}, lens, best ${i}`);
      row.forEach((word) => elementAt(word, lens.vocabulary, `${where}, lens, best ${i}`));
    });
    checkArray(lens.best_probability, `${where}, lens`, [L, P], blocks);
    checkArray(lens.target_probability, `${where}, lens`, [L, P], blocks);
  }
  if (patching) {
    const T = patching.clean_tokens.length;
    requireEqual(patching.corrupted_tokens.length, T, `${where}, patching, corrupted tokens`);
    checkArray(patching.restored, `${where}, patching`, [patching.layers.length, T], blocks);
  }
}

function checkWalkthrough(walk: Walkthrough, where: string, side: Side, blocks: Blocks): void {
  const layer = elementAt(walk.layer, side.layers, `${where}, layer`);
  elementAt(walk.head, layer.heads, `${where}, head`);
  elementAt(walk.query, side.sequences[layer.queries].tokens, `${where}, query`);
  walk.key_heads.forEach((each) => elementAt(each, layer.heads, `${where}, key heads`));
  const [H, S] = [layer.heads.length, side.sequences[layer.keys].tokens.length];
  const [N, P, W] = [walk.key_heads.length, walk.parts.length, walk.stream?.shape[0] ?? null];
  const shapes = {
    embedding: [W], input: [W], stream: [W], hidden: [null], added: [P, W], q: [H, null],
    dots: [H, S], bias: [null, S], k: [N, S, null], v: [N, S, null], outputs: [H, null],
  } as const; // prettier-ignore
  for (const [name, shape] of Object.entries(shapes)) {
    const ref = walk[name as keyof typeof shapes];
    if (ref) checkArray(ref, `${where}, ${name}`, shape, blocks);
  }
  if (walk.bias && walk.bias.shape[0] !== 1) requireEqual(walk.bias.shape[0], H, `${where}, bias`);
  if (walk.q && walk.k) requireEqual(walk.k.shape[2], walk.q.shape[1], `${where}, size of k`);
  if ((P > 0) !== (walk.added !== null)) fail(`${where}, added: it must have a row for each part.`);
}

function checkSequence(sequence: Sequence, where: string, blocks: Blocks): void {
  const { tokens, segments, prompt, image } = sequence;
  if (tokens.length < 1) fail(`${where} has no tokens.`);
  if (segments) requireEqual(segments.length, tokens.length, `${where}, segments`);
  if (prompt !== null) integerBetween(0, tokens.length)(prompt, `${where}, prompt`);
  if (!image) return;
  const patches = image.rows * image.columns;
  if (image.first + patches > tokens.length)
    fail(`${where}: ${patches} patches from token ${image.first} on do not fit in ${tokens.length} tokens.`);
  checkArray(image.pixels, `${where}, pixels`, [image.height, image.width, 3], blocks, ['u8']);
}

function checkLayer(layer: LayerInfo, where: string, side: Side, blocks: Blocks): void {
  const T = elementAt(layer.queries, side.sequences, `${where}, queries`).tokens.length;
  const S = elementAt(layer.keys, side.sequences, `${where}, keys`).tokens.length;
  const H = layer.heads.length;
  if (H < 1) fail(`${where} has no heads.`);
  integerBetween(H, 2 ** 20)(layer.all_heads, `${where}, all heads`);
  layer.heads.forEach((each) => integerBetween(0, layer.all_heads - 1)(each, `${where}, a head`));
  const shapes = {
    weights: [H, T, S], sums: [H, T], norms: [H, S],
    q: [H, T, null], k: [null, S, null], v: [null, S, null], bias: [null, T, S],
  } as const; // prettier-ignore
  for (const [name, shape] of Object.entries(shapes)) {
    const ref = layer[name as keyof typeof shapes];
    if (ref) checkArray(ref, `${where}, ${name}`, shape, blocks);
  }
  if (layer.bias && layer.bias.shape[0] !== 1) requireEqual(layer.bias.shape[0], H,
    `${where}, bias`);
  const [group] = (layer.k ?? layer.v)?.shape ?? [];
  if (layer.k && layer.v) requireEqual(layer.v.shape[0], layer.k.shape[0], `${where}, heads of v`);
  if (group && layer.groups) {
    requireEqual(layer.groups.length, H, `${where}, groups`);
    layer.groups.forEach((each) => integerBetween(0, group - 1)(each, `${where}, a group`));
  }
  if (layer.q && layer.k) requireEqual(layer.k.shape[2], layer.q.shape[2], `${where}, size of k`);
  if (layer.mask !== null) {
    const { shape } = elementAt(layer.mask, side.masks, `${where}, mask`).allowed;
    requireEqual(shape[0], T, `${where}, rows of the mask`);
    requireEqual(shape[1], S, `${where}, columns of the mask`);
  }
  if (!layer.patterns.length) layer.patterns = layer.heads.map(() => ({ label: '', scores: {} }));
  requireEqual(layer.patterns.length, H, `${where}, patterns`);
}

function checkArray(
  ref: ArrayRef,
  where: string,
  shape: readonly (number | null)[],
  blocks: Blocks,
  codes = CODES,
): void {
  oneOf(...codes)(ref.code, `${where}, code`);
  if (ref.shape.length !== shape.length
    || shape.some((each, i) => each !== null && each !== ref.shape[i])) {
    const expected = shape.map((each) => each ?? 'any').join(', ');
    fail(`${where}: got shape (${ref.shape.join(', ')}); it must be (${expected}).`);
  }
  const { size: blockSize } = elementAt(ref.block, blocks, `${where}, block`);
  const bytes = byteSize(ref);
  if (!(ref.offset + bytes <= blockSize))
    fail(`${where}: ${bytes} bytes from ${ref.offset} on do not fit in block ${ref.block}, which has ${blockSize}.`);
}
