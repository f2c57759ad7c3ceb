// The model view: all heads as small maps, by layer or by pattern. A click opens the matrix view.

import type { Capture } from '../capture';
import type { Choices } from '../choices';
import type { Side } from '../capture-format';
import { maxAbs, colorStrength, colorStrengths } from '../prepare-weights';
import { count, inCell } from '../../shared/readable-text';
import type { Table } from '../../shared/table-type';
import type { Drawing, Frame, Mark, Target, View } from '../view';
import { layOutModel, type ModelLayout } from './model-layout';
import {
  groupByLayer, groupByPattern, untrainedPattern, shortLayerName, scoreNames, hasSeveralKinds,
    NO_PATTERN,
  type HeadGroup, type HeadEntry,
} from './model-head-groups';
import { rectMark, layerTitle, lineMark, paragraph, textMark } from './marks';

const PADDING = 12;
const FONT_SIZE = 11;

const groupHeads = (side: Side, choices: Choices): HeadGroup[] => (
  choices.order === 'pattern' ? groupByPattern(side) : groupByLayer(side));

const formatScore = (score: number): string => score.toFixed(2).replace('-', '−');

// Colors of the maps, each relative to the largest weight of its head. The cache returns the same
// arrays again, so that the same map is painted only once.
const colorCache = new WeakMap<Float32Array, Map<string, Float32Array[]>>();

function mapColors(capture: Capture, index: number, scale: Choices['scale']): Float32Array[] {
  const { small } = capture.header.sides[index];
  const values = capture.values(small);
  const cached = colorCache.get(values) ?? new Map<string, Float32Array[]>();
  colorCache.set(values, cached);
  const cells = small.shape[1] * small.shape[2];
  const colorMap = small.code === 'u8' ? byteColors(scale)
    : (map: Float32Array) => colorStrengths(map.map(Math.abs), maxAbs(map), scale);
  const maps = cached.get(scale) ?? Array.from({ length: small.shape[0] }, (_, map) => (
    colorMap(values.subarray(map * cells, (map + 1) * cells))));
  cached.set(scale, maps);
  return maps;
}

// A byte is 255 times the square root of the fraction of the largest weight.
function byteColors(scale: Choices['scale']): (map: Float32Array) => Float32Array {
  const table = Float32Array.from({ length: 256 },
    (_, byte) => colorStrength((byte / 255) ** 2, scale));
  return (map) => {
    const out = new Float32Array(map.length);
    for (let i = 0; i < map.length; i++) out[i] = table[map[i]];
    return out;
  };
}

function draw(frame: Frame): Drawing {
  const { capture, choices, width, measure } = frame;
  const side = capture.header.sides[choices.side];
  const groups = groupHeads(side, choices);
  const descriptionBlock = paragraph(explain(side, choices), PADDING, PADDING, width - 2 * PADDING,
    12, measure);
  const top = PADDING + descriptionBlock.height + 6;
  const captions = choices.order === 'pattern' ? 20 : 34;
  const layout = layOutModel(groups, captions, width, frame.height - top);
  const maps = mapColors(capture, choices.side, choices.scale);
  const marks: Mark[] = [...descriptionBlock.marks];
  const targets: Target[] = [];
  groups.forEach((group, i) => {
    const { x, y, limit } = layout.groups[i];
    marks.push(...headings(group, x, top + y, limit, choices, measure));
    group.entries.forEach((entry, n) => {
      const cell = layOutCell(entry, layout, i, n, top);
      marks.push(...mapCellMarks(cell, maps[entry.map], side, choices, measure));
      if (entry.head >= 0) targets.push(mapTarget(cell, side, choices));
    });
  });
  return { width, height: top + layout.height, marks, targets, summary: summarize(side, choices) };
}

function explain(side: Side, choices: Choices): string {
  const kinds = hasSeveralKinds(side) ? ' (e: encoder, d: decoder, c: cross-attention)' : '';
  const caption = choices.order === 'pattern'
    ? `layer${kinds} and head, and the score of the pattern`
    : 'the head, the score of its pattern, and the pattern';
  return 'Rows are queries, columns are keys; the strongest color is the largest weight of each map. '
    + `Below each map: ${caption}.`;
}

function headings(
  group: HeadGroup, x: number, y: number, limit: number, choices: Choices,
  measure: Frame['measure'],
): Mark[] {
  const isCurrentLayer = group.layer === choices.layer;
  const title = (isCurrentLayer ? '▸ ' : '') + inCell(group.title);
  const titleWidth = measure(title, 12) * 1.1 + 8; // bold is a little wider
  const marks = [textMark(x, y + 13, title, 12,
    { bold: true, fill: isCurrentLayer ? 'accent' : 'ink', limit })];
  if (group.section !== '') marks.push(textMark(PADDING, y - 8, group.section, 14, { bold: true }));
  if (limit - titleWidth > 40) {
    const detail = inCell(group.detail);
    marks.push(textMark(x + titleWidth, y + 13, detail, FONT_SIZE,
      { fill: 'dim', limit: limit - titleWidth }));
  }
  return marks;
}

interface MapCell {
  entry: HeadEntry;
  x: number;
  y: number;
  size: number;
  captionHeight: number;
}

function layOutCell(entry: HeadEntry, layout: ModelLayout, group: number, n: number,
  top: number): MapCell {
  const { cell, step, captions } = layout;
  const { x, y, columns, above } = layout.groups[group];
  return {
    entry, size: cell, captionHeight: captions, x: x + (n % columns) * step,
    y: top + y + above + Math.floor(n / columns) * (cell + captions),
  };
}

function mapCellMarks(
  cell: MapCell, values: Float32Array | undefined, side: Side, choices: Choices,
  measure: Frame['measure'],
): Mark[] {
  const { entry, x, y, size } = cell;
  const marks = values === undefined ? notCapturedMarks(cell) : [mapMark(cell, values, side)];
  if (values !== undefined) marks.push(rectMark(x, y, size, size, { stroke: 'rule' }));
  if (isSelected(entry, choices)) {
    for (const out of [2, 3]) { // a line of two pixels
      const frameSize = size + 2 * out;
      marks.push(rectMark(x - out, y - out, frameSize, frameSize, { stroke: 'accent', radius: 3 }));
    }
  }
  const pattern = choices.order === 'pattern';
  const name = pattern ? `${shortLayerName(side, entry.layer)}·${entry.number}` : `${entry.number}`;
  marks.push(textMark(x, y + size + 13, name, FONT_SIZE, { bold: true, limit: size }));
  if (entry.score !== null) {
    const score = formatScore(entry.score);
    marks.push(textMark(x + size, y + size + 13, score, FONT_SIZE, { anchor: 'end' }));
  }
  if (!pattern && entry.label !== '') {
    const label = shortenLabel(inCell(entry.label), size, measure);
    marks.push(textMark(x, y + size + 26, label, FONT_SIZE, { fill: 'dim', limit: size }));
  }
  return marks;
}

function mapMark({ x, y, size }: MapCell, values: Float32Array, side: Side): Mark {
  const [, rows, columns] = side.small.shape;
  return { kind: 'raster', x, y, w: size, h: size, rows, columns, values, signed: false };
}

const isSelected = (entry: HeadEntry, choices: Choices): boolean => (
  entry.layer === choices.layer && choices.heads.includes(entry.head));

function notCapturedMarks({ x, y, size }: MapCell): Mark[] {
  const [right, bottom, center] = [x + size, y + size, x + size / 2];
  const dashed = (x1: number, y1: number, x2: number, y2: number): Mark => (
    lineMark(x1, y1, x2, y2, 'dim', { opacity: 0.7, dash: [3, 3] }));
  const textStyle = { anchor: 'middle', fill: 'dim', limit: size } as const;
  return [
    dashed(x, y, right, y), dashed(right, y, right, bottom), dashed(right, bottom, x, bottom),
    dashed(x, bottom, x, y), textMark(center, y + size / 2 - 1, 'not', FONT_SIZE, textStyle),
    textMark(center, y + size / 2 + 12, 'captured', FONT_SIZE, textStyle),
  ];
}

// Shortens a label by whole words.
function shortenLabel(label: string, width: number, measure: Frame['measure']): string {
  const words = label.split(' ');
  for (let wordCount = words.length; wordCount > 1; wordCount--) {
    const shortened = words.slice(0, wordCount).join(' ') + (wordCount < words.length ? ' …' : '');
    if (measure(shortened, FONT_SIZE) <= width) return shortened;
  }
  return words.length > 1 ? `${words[0]} …` : label;
}

function mapTarget({ entry, x, y, size, captionHeight }: MapCell, side: Side,
  choices: Choices): Target {
  const { label, score, layer, head } = entry;
  const pattern = score === null ? label || NO_PATTERN : `${label} ${formatScore(score)}`;
  const state = isSelected(entry, choices) ? ', selected' : '';
  return {
    x, y, w: size, h: size + captionHeight - 4,
    label: `${layerTitle(side, layer)}, head ${entry.number}: ${pattern}${state}`,
    key: `model/${layer}/${head}`,
    pick: { view: 'matrix', layer, heads: [head], mean: false },
    toggles: { set: 'heads', index: head, layer },
    tooltip: () => tooltipLines(entry, side),
  };
}

// All scores, the highest first, each beside that of an untrained model.
function tooltipLines(entry: HeadEntry, side: Side): string[] {
  const layer = side.layers[entry.layer];
  const untrained = untrainedPattern(side, entry)?.scores;
  const untrainedText = (name: string): string => (
    untrained?.[name] === undefined ? '' : ` (untrained ${formatScore(untrained[name])})`);
  const scores = Object.entries(layer.patterns[entry.head]?.scores ?? {});
  return [
    `${layerTitle(side, entry.layer)}, head ${entry.number}: ${entry.label || NO_PATTERN}`,
    inCell(`${layer.name}, ${layer.mechanism}`),
    ...scores.sort(([, one], [, other]) => other - one)
      .map(([name, score]) => `${name} ${formatScore(score)}${untrainedText(name)}`),
  ];
}

function summarize(side: Side, choices: Choices): string {
  const patterns = groupByPattern(side).map(({ entries }) => (
    `${entries.length} ${entries[0].label || 'without a pattern'}`));
  const total = (of: (layer: Side['layers'][number]) => number): number => (
    side.layers.reduce((sum, layer) => sum + of(layer), 0));
  const [captured, allHeads] = [total((layer) => layer.heads.length),
    total((layer) => layer.all_heads)];
  const order = choices.order === 'pattern' ? 'grouped by pattern' : 'by layer';
  const notCapturedText = allHeads > captured
    ? `, ${allHeads - captured} of ${allHeads} not captured` : '';
  const heads = `${count(captured, 'head')} in ${count(side.layers.length, 'layer')} of ${side.label}`;
  return `${heads}, ${order}${notCapturedText}: ${patterns.join(', ')}.`;
}

function table({ capture, choices }: Frame): Table {
  const side = capture.header.sides[choices.side];
  const names = scoreNames(side);
  const control = side.control === null ? [] : names.map((name) => `${name}, untrained`);
  const rows = groupHeads(side, choices).flatMap((group) => group.entries).map((entry) => {
    const layer = side.layers[entry.layer];
    const scores = layer.patterns[entry.head]?.scores;
    const untrained = untrainedPattern(side, entry)?.scores;
    return [
      entry.layer, layer.name, layer.stack, layer.kind, layer.mechanism, entry.number,
      entry.head < 0 ? 'not captured' : entry.label,
      ...names.map((name) => scores?.[name] ?? ''),
      ...(control.length > 0 ? names.map((name) => untrained?.[name] ?? '') : []),
    ];
  });
  const about = ['layer', 'name', 'stack', 'kind', 'mechanism', 'head', 'pattern'];
  const header = [...about, ...names, ...control];
  return { title: `Heads of ${side.label} and their patterns`, header, rows };
}

export const model: View = {
  id: 'model',
  key: 'm',
  title: 'Model',
  description: 'Every head of every layer as a small map, with the pattern it follows.',
  missingReason: (capture, choices) => (
    capture.header.sides[choices.side].layers.length === 0 ? 'The capture has no attention layers.'
      : null),
  needs: (_, choices) => [{ side: choices.side, small: true }],
  draw,
  table,
  controls: ['side', 'order', 'scale'],
};
