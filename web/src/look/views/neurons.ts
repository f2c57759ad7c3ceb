// The neurons view: one query and one key in one head, from q and k to the weight and the value.

import type { Capture } from '../capture';
import type { Choices } from '../choices';
import { layerName } from '../names';
import { number, quoted, sensible } from '../../shared/readable-text';
import type { Table } from '../../shared/table-type';
import type { Drawing, Frame, Mark, Need, Target, View } from '../view';
import {
  keyBarsHeight, keyBarsMarks, keyBarsTargets, type KeyBars,
} from './key-bars';
import { readPair, makeRemarks, calculationSteps, type QueryKeyPair } from './neurons-data';
import { drawAllKeys } from './neurons-keys';
import { drawTexts, textsNeeds, textsTable, vectorsMode } from './neurons-texts';
import { lineMark, paragraph, textMark, type MarkBlock } from './marks';
import { elementTarget, layOutStrip, STRIP_HEIGHT, stripMarks, stripTarget,
  type StripLayout } from './vector-strips';

const PADDING = 12;
const WIDE_PIXELS = 860; // wider pages show the keys beside the vectors
const LINE_HEIGHT = 20; // height of a line of the calculation

function draw(frame: Frame): Drawing {
  const mode = vectorsMode(frame.capture, frame.choices);
  if (mode === 'texts') return drawTexts(frame);
  return (mode === 'keys' && drawAllKeys(frame)) || drawPair(frame);
}

function drawPair(frame: Frame): Drawing {
  const { capture, choices, width, measure } = frame;
  const pair = readPair(capture, choices);
  const sideBySide = width >= WIDE_PIXELS;
  const contentWidth = Math.min(width - 2 * PADDING, 2000);
  const vectorWidth = sideBySide ? Math.min(contentWidth * 0.56, 1100) : contentWidth;
  const vectorBlock = makeVectorBlock(pair, vectorWidth, measure);
  const x = sideBySide ? PADDING + vectorWidth + 36 : PADDING;
  const keyBars: KeyBars = {
    scores: pair.scores, queries: pair.queries, keys: pair.keys, key: pair.key, measure,
    x, y: sideBySide ? PADDING : vectorBlock.height + 12, w: PADDING + contentWidth - x,
  };
  return {
    width, height: Math.max(vectorBlock.height, keyBars.y + keyBarsHeight(keyBars)) + PADDING,
    marks: [...vectorBlock.marks, ...keyBarsMarks(keyBars)],
    targets: [...vectorBlock.targets, ...keyBarsTargets(keyBars, (key) => keyTooltip(pair, key))],
    targetAt: (atX, atY) => elementTarget(vectorBlock.groups, atX, atY),
    summary: summarize(pair),
  };
}

interface VectorBlock {
  marks: Mark[];
  targets: Target[];
  groups: StripLayout[][]; // strips with corresponding elements
  height: number;
}

// q, k, their product and its running sum; then the calculation; then the value.
function makeVectorBlock(pair: QueryKeyPair, w: number, measure: Frame['measure']): VectorBlock {
  const { scores, k, product, runningSum, v } = pair;
  const [query, key] = [quoted(pair.queries[pair.query].text), quoted(pair.keys[pair.key].text)];
  const title = paragraph(
    `${pair.title}: ${query} attends to ${key}`, PADDING, PADDING, w, 14, measure, { bold: true });
  const marks = [...title.marks];
  let y = PADDING + title.height + 8;
  const addStrips = (all: [string, boolean, Float32Array | null][]): StripLayout[] => (
    all.flatMap(([name, showNorm, values]) => {
      if (values === null) return [];
      const layout = layOutStrip({ name, showNorm, values }, PADDING, y, w);
      marks.push(...stripMarks(layout));
      y += STRIP_HEIGHT;
      return [layout];
    }));
  const scoreStrips = addStrips([
    [`q of ${query}`, true, scores.q], [`k of ${key}`, true, k],
    ['q × k', false, product], ['sum so far', false, runningSum],
  ]);
  const calculationBlock = makeCalculation(pair, y, w, measure);
  marks.push(...calculationBlock.marks);
  y += calculationBlock.height + 16;
  const valueStrips = addStrips([[`v of ${key}`, true, v]]);
  const targets = [...scoreStrips, ...valueStrips].map(stripTarget);
  return { marks, targets, groups: [scoreStrips, valueStrips], height: y };
}

function makeCalculation(pair: QueryKeyPair, top: number, w: number,
  measure: Frame['measure']): MarkBlock {
  const marks: Mark[] = [];
  const blockWidth = Math.min(w, 520);
  let y = top;
  for (const { name, value } of calculationSteps(pair)) {
    marks.push(textMark(PADDING, y + 14, name, 12, { limit: blockWidth * 0.5 }));
    const valueStyle = { mono: true, anchor: 'end', limit: blockWidth * 0.62 } as const;
    marks.push(textMark(PADDING + blockWidth, y + 14, value, 12, valueStyle));
    y += LINE_HEIGHT;
    marks.push(lineMark(PADDING, y, PADDING + blockWidth, y, 'rule'));
  }
  for (const remark of makeRemarks(pair)) {
    const remarkBlock = paragraph(remark, PADDING, y + 8, w, 12, measure, {});
    marks.push(...remarkBlock.marks);
    y += remarkBlock.height + 8;
  }
  return { marks, height: y - top };
}

function keyTooltip(pair: QueryKeyPair, key: number): string[] {
  const { dots, scores, bias, softmax, captured, allowed, errorBound } = pair.scores;
  const from = quoted(pair.queries[pair.query].text);
  const lines = [`${from} to key ${key} ${quoted(pair.keys[key].text)}`];
  if (dots) lines.push(`q · k ${number(dots[key], 5)}`);
  if (bias) lines.push(`bias ${number(bias[key], 5)}`);
  if (scores) lines.push(`score ${number(scores[key], 5)}`);
  if (!allowed[key]) lines.push('masked: the query may not attend to it');
  if (softmax) lines.push(`softmax ${number(softmax[key], 6)}`);
  return [...lines, `weight ${sensible(captured[key], errorBound(key))}`];
}

function summarize(pair: QueryKeyPair): string {
  const { scores, key } = pair;
  const [from, to] = [quoted(pair.queries[pair.query].text), quoted(pair.keys[key].text)];
  const parts = [`captured weight ${sensible(scores.captured[key])}`];
  if (scores.softmax) parts.unshift(`softmax ${sensible(scores.softmax[key])}`);
  if (!scores.allowed[key]) parts.unshift('masked');
  if (scores.scores) parts.unshift(`score ${number(scores.scores[key], 2)}`);
  return `${pair.title}: from ${from} to ${to}, ${parts.join(', ')}.`;
}

const HEADER = [
  'part', 'number', 'token', 'q', 'k', 'q × k', 'sum so far', 'v', 'q · k', 'bias', 'score',
  'allowed', 'softmax', 'weight',
];

// First the elements of the vectors, then all keys of the query.
function table(frame: Frame): Table {
  const { capture, choices } = frame;
  if (vectorsMode(capture, choices) === 'texts') return textsTable(frame);
  const pair = readPair(capture, choices);
  const { scores, k, v, product, runningSum, keys, query, key } = pair;
  const roundedOrEmpty = (values: ArrayLike<number> | null, i: number): number | string => (
    values === null || i >= values.length ? '' : Number(values[i].toPrecision(7)));
  const elementCount = Math.max(0, ...[scores.q, k, v].map((values) => values?.length ?? 0));
  const elements = Array.from({ length: elementCount }, (_, d) => [
    'element', d, '', ...[scores.q, k, product, runningSum,
      v].map((values) => roundedOrEmpty(values, d)),
    '', '', '', '', '', '',
  ]);
  const keyRows = keys.map((token, i) => [
    'key', i, token.text, '', '', '', '', '', roundedOrEmpty(scores.dots, i),
      roundedOrEmpty(scores.bias, i),
    roundedOrEmpty(scores.scores, i), scores.allowed[i] ? 'yes' : 'no',
      roundedOrEmpty(scores.softmax, i),
    roundedOrEmpty(scores.captured, i),
  ]);
  const [from, to] = [quoted(pair.queries[query].text), quoted(keys[key].text)];
  return {
    title: `${pair.title}: elements of query ${query} ${from} and key ${key} ${to}, then all keys`,
    header: HEADER, rows: [...elements, ...keyRows],
  };
}

function needs(capture: Capture, choices: Choices): Need[] {
  const { mask } = capture.header.sides[choices.side].layers[choices.layer];
  const { side, layer } = choices;
  if (vectorsMode(capture, choices) === 'texts') return textsNeeds(choices);
  const parts: Need[] = [{ side, layer, parts: ['weights', 'q', 'k', 'v', 'bias'] }];
  return mask === null ? parts : [...parts, { side, mask }];
}

// Layers with captured queries, keys or values.
function capturedLayers(capture: Capture, choices: Choices): number[] {
  return capture.header.sides[choices.side].layers
    .flatMap(({ q, k, v }, i) => (q || k || v ? [i] : []));
}

function missingReason(capture: Capture, choices: Choices): string | null {
  const side = capture.header.sides[choices.side];
  const available = capturedLayers(capture, choices);
  if (available.includes(choices.layer)) return null;
  if (available.length === 0) {
    return 'The capture has no queries, keys and values. Capture them with: attnlab look --neurons.';
  }
  const names = available.map((each) => layerName(side, each)).join(', ');
  return `The capture has queries, keys and values for other layers only: ${names}.`;
}

export const neurons: View = {
  id: 'neurons',
  key: 'n',
  title: 'Neurons',
  description: 'Queries and keys element by element: product, score, mask, softmax, weight, value.',
  missingReason,
  needs,
  draw,
  table,
  controls: ['vectors', 'side', 'layer', 'heads', 'queries'],
  layers: capturedLayers,
};
