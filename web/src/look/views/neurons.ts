// One query and one key in one head, element by element: from q and k to the weight and the value.

import type { Opened } from '../capture';
import type { Choices } from '../choices';
import { layerName } from '../names';
import { number, quoted, rounded } from '../../shared/text';
import type { Table } from '../../shared/table';
import type { Drawing, Frame, Mark, Need, Target, View } from '../view';
import {
  competitionHeight, competitionMarks, competitionTargets, type Competition,
} from './competition';
import { pairOf, remarksOf, stepsOf, type Pair } from './pair';
import { line, paragraph, words, type Piece } from './parts';
import { elementTarget, placed, STRIP, stripMarks, stripTarget, type StripPlace } from './strips';

const PAD = 12;
const WIDE = 860; // from here on the keys stand beside the vectors
const STEP = 20; // a line of the calculation

function draw(frame: Frame): Drawing {
  const { opened, choices, width, measure } = frame;
  const pair = pairOf(opened, choices);
  const wide = width >= WIDE;
  const content = Math.min(width - 2 * PAD, 2000);
  const left = wide ? Math.min(content * 0.56, 1100) : content;
  const vectors = vectorPart(pair, left, measure);
  const x = wide ? PAD + left + 36 : PAD;
  const rivals: Competition = {
    scores: pair.scores, queries: pair.queries, keys: pair.keys, key: pair.key, measure,
    x, y: wide ? PAD : vectors.height + 12, w: PAD + content - x,
  };
  return {
    width, height: Math.max(vectors.height, rivals.y + competitionHeight(rivals)) + PAD,
    marks: [...vectors.marks, ...competitionMarks(rivals)],
    targets: [...vectors.targets, ...competitionTargets(rivals, (key) => keyTip(pair, key))],
    at: (atX, atY) => elementTarget(vectors.groups, atX, atY),
    summary: summaryOf(pair),
  };
}

interface VectorPart {
  marks: Mark[];
  targets: Target[];
  groups: StripPlace[][]; // strips whose elements belong together
  height: number;
}

// q, k, their product and its sum; the calculation below; then the value.
function vectorPart(pair: Pair, w: number, measure: Frame['measure']): VectorPart {
  const { scores, k, product, running, v } = pair;
  const [query, key] = [quoted(pair.queries[pair.query].text), quoted(pair.keys[pair.key].text)];
  const title = paragraph(
    `${pair.title}: ${query} looks at ${key}`, PAD, PAD, w, 14, measure, { bold: true });
  const marks = [...title.marks];
  let y = PAD + title.height + 8;
  const strips = (all: [string, boolean, Float32Array | null][]): StripPlace[] => (
    all.flatMap(([name, vector, values]) => {
      if (values === null) return [];
      const place = placed({ name, vector, values }, PAD, y, w);
      marks.push(...stripMarks(place));
      y += STRIP;
      return [place];
    }));
  const scored = strips([
    [`q of ${query}`, true, scores.q], [`k of ${key}`, true, k],
    ['q × k', false, product], ['sum so far', false, running],
  ]);
  const steps = calculation(pair, y, w, measure);
  marks.push(...steps.marks);
  y += steps.height + 16;
  const value = strips([[`v of ${key}`, true, v]]);
  const targets = [...scored, ...value].map(stripTarget);
  return { marks, targets, groups: [scored, value], height: y };
}

function calculation(pair: Pair, top: number, w: number, measure: Frame['measure']): Piece {
  const marks: Mark[] = [];
  const across = Math.min(w, 520);
  let y = top;
  for (const { name, value } of stepsOf(pair)) {
    marks.push(words(PAD, y + 14, name, 12, { limit: across * 0.5 }));
    const look = { mono: true, anchor: 'end', limit: across * 0.62 } as const;
    marks.push(words(PAD + across, y + 14, value, 12, look));
    y += STEP;
    marks.push(line(PAD, y, PAD + across, y, 'rule'));
  }
  for (const remark of remarksOf(pair)) {
    const said = paragraph(remark, PAD, y + 8, w, 12, measure, {});
    marks.push(...said.marks);
    y += said.height + 8;
  }
  return { marks, height: y - top };
}

function keyTip(pair: Pair, key: number): string[] {
  const { dots, scores, bias, softmax, captured, allowed, bound } = pair.scores;
  const from = quoted(pair.queries[pair.query].text);
  const told = [`${from} to key ${key} ${quoted(pair.keys[key].text)}`];
  if (dots) told.push(`q · k ${number(dots[key], 5)}`);
  if (bias) told.push(`bias ${number(bias[key], 5)}`);
  if (scores) told.push(`score ${number(scores[key], 5)}`);
  if (!allowed[key]) told.push('masked: it may not look');
  if (softmax) told.push(`softmax ${number(softmax[key], 6)}`);
  return [...told, `weight ${rounded(captured[key], bound(key))}`];
}

function summaryOf(pair: Pair): string {
  const { scores, key } = pair;
  const [from, to] = [quoted(pair.queries[pair.query].text), quoted(pair.keys[key].text)];
  const told = [`captured weight ${number(scores.captured[key])}`];
  if (scores.softmax) told.unshift(`softmax ${number(scores.softmax[key])}`);
  if (!scores.allowed[key]) told.unshift('masked');
  if (scores.scores) told.unshift(`score ${number(scores.scores[key])}`);
  return `${pair.title}: from ${from} to ${to}, ${told.join(', ')}.`;
}

const HEADER = [
  'part', 'number', 'token', 'q', 'k', 'q × k', 'sum so far', 'v', 'q · k', 'bias', 'score',
  'may look', 'softmax', 'weight',
];

// First the elements of the vectors, then all keys of the query.
function table({ opened, choices }: Frame): Table {
  const pair = pairOf(opened, choices);
  const { scores, k, v, product, running, keys, query, key } = pair;
  const exact = (values: ArrayLike<number> | null, i: number): number | string => (
    values === null || i >= values.length ? '' : Number(values[i].toPrecision(7)));
  const size = Math.max(0, ...[scores.q, k, v].map((values) => values?.length ?? 0));
  const elements = Array.from({ length: size }, (_, d) => [
    'element', d, '', ...[scores.q, k, product, running, v].map((values) => exact(values, d)),
    '', '', '', '', '', '',
  ]);
  const rivals = keys.map((token, i) => [
    'key', i, token.text, '', '', '', '', '', exact(scores.dots, i), exact(scores.bias, i),
    exact(scores.scores, i), scores.allowed[i] ? 'yes' : 'no', exact(scores.softmax, i),
    exact(scores.captured, i),
  ]);
  const [from, to] = [quoted(pair.queries[query].text), quoted(keys[key].text)];
  return {
    title: `${pair.title}: elements of query ${query} ${from} and key ${key} ${to}, then all keys`,
    header: HEADER, rows: [...elements, ...rivals],
  };
}

function needs(opened: Opened, choices: Choices): Need[] {
  const { mask } = opened.header.sides[choices.side].layers[choices.layer];
  const { side, layer } = choices;
  const parts: Need[] = [{ side, layer, parts: ['weights', 'q', 'k', 'v', 'bias'] }];
  return mask === null ? parts : [...parts, { side, mask }];
}

// Layers of which there is something to show.
function layers(opened: Opened, choices: Choices): number[] {
  return opened.header.sides[choices.side].layers
    .flatMap(({ q, k, v }, i) => (q || k || v ? [i] : []));
}

function missing(opened: Opened, choices: Choices): string | null {
  const side = opened.header.sides[choices.side];
  const known = layers(opened, choices);
  if (known.includes(choices.layer)) return null;
  if (known.length === 0) {
    return 'Queries, keys and values were not captured. Look again with them (attnlab look --neurons).';
  }
  const names = known.map((each) => layerName(side, each)).join(', ');
  return `Queries, keys and values were captured for other layers only: ${names}.`;
}

export const neurons: View = {
  id: 'neurons',
  key: 'n',
  title: 'Neurons',
  about: 'One query and one key element by element: product, score, mask, softmax, weight, value.',
  missing,
  needs,
  draw,
  table,
  controls: ['side', 'layer', 'heads', 'queries'],
  layers,
};
