// All layers and heads as small maps, by layer or by pattern. A click opens the head in the matrix.

import type { Opened } from '../capture';
import type { Choices } from '../choices';
import type { Side } from '../format';
import { largest, shade, shades } from '../prepare';
import { count, inCell } from '../../shared/text';
import type { Table } from '../../shared/table';
import type { Drawing, Frame, Mark, Target, View } from '../view';
import { layOut, type Layout } from './model-layout';
import {
  byLayer, byPattern, controlOf, layerMark, scoreNames, severalKinds, UNLABELED,
  type HeadGroup, type HeadPlace,
} from './overview';
import { box, layerTitle, line, paragraph, words } from './parts';

const PAD = 12;
const FONT = 11;

const grouped = (side: Side, choices: Choices): HeadGroup[] => (
  choices.order === 'pattern' ? byPattern(side) : byLayer(side));

const twoPlaces = (score: number): string => score.toFixed(2).replace('-', '−');

// Maps as they are colored, each up to its head's largest weight. They are kept, because the
// painter recognizes what it painted before.
const colored = new WeakMap<Float32Array, Map<string, Float32Array[]>>();

function mapsOf(opened: Opened, index: number, scale: Choices['scale']): Float32Array[] {
  const { small } = opened.header.sides[index];
  const values = opened.values(small);
  const known = colored.get(values) ?? new Map<string, Float32Array[]>();
  colored.set(values, known);
  const cells = small.shape[1] * small.shape[2];
  const of = small.code === 'u8' ? colorBytes(scale)
    : (map: Float32Array) => shades(map.map(Math.abs), largest(map), scale);
  const maps = known.get(scale) ?? Array.from({ length: small.shape[0] }, (_, map) => (
    of(values.subarray(map * cells, (map + 1) * cells))));
  known.set(scale, maps);
  return maps;
}

// A byte is 255 times the square root of the share.
function colorBytes(scale: Choices['scale']): (map: Float32Array) => Float32Array {
  const table = Float32Array.from({ length: 256 }, (_, byte) => shade((byte / 255) ** 2, scale));
  return (map) => {
    const out = new Float32Array(map.length);
    for (let i = 0; i < map.length; i++) out[i] = table[map[i]];
    return out;
  };
}

function draw(frame: Frame): Drawing {
  const { opened, choices, width, measure } = frame;
  const side = opened.header.sides[choices.side];
  const groups = grouped(side, choices);
  const about = paragraph(explanation(side, choices), PAD, PAD, width - 2 * PAD, 12, measure);
  const top = PAD + about.height + 6;
  const captions = choices.order === 'pattern' ? 20 : 34;
  const layout = layOut(groups, captions, width, frame.height - top);
  const maps = mapsOf(opened, choices.side, choices.scale);
  const marks: Mark[] = [...about.marks];
  const targets: Target[] = [];
  groups.forEach((group, i) => {
    const { x, y, limit } = layout.groups[i];
    marks.push(...headings(group, x, top + y, limit, choices, measure));
    group.places.forEach((place, n) => {
      const cell = cellOf(place, layout, i, n, top);
      marks.push(...cellMarks(cell, maps[place.map], side, choices, measure));
      if (place.head >= 0) targets.push(targetOf(cell, side, choices));
    });
  });
  return { width, height: top + layout.height, marks, targets, summary: summaryOf(side, choices) };
}

function explanation(side: Side, choices: Choices): string {
  const kinds = severalKinds(side) ? ' (e: encoder, d: decoder, c: cross-attention)' : '';
  const below = choices.order === 'pattern' ? `layer${kinds} and head, and the score of the pattern`
    : 'the head, the score of its pattern, and the pattern';
  return 'Queries run down, keys across; each map is colored up to its own largest weight. '
    + `Below: ${below}.`;
}

function headings(
  group: HeadGroup, x: number, y: number, limit: number, choices: Choices,
  measure: Frame['measure'],
): Mark[] {
  const here = group.layer === choices.layer;
  const title = (here ? '▸ ' : '') + inCell(group.title);
  const wide = measure(title, 12) * 1.1 + 8; // bold is a little wider
  const marks = [words(x, y + 13, title, 12, { bold: true, fill: here ? 'accent' : 'ink', limit })];
  if (group.section !== '') marks.push(words(PAD, y - 8, group.section, 14, { bold: true }));
  if (limit - wide > 40) {
    const detail = inCell(group.detail);
    marks.push(words(x + wide, y + 13, detail, FONT, { fill: 'dim', limit: limit - wide }));
  }
  return marks;
}

interface Cell {
  place: HeadPlace;
  x: number;
  y: number;
  size: number;
  captions: number; // height
}

function cellOf(place: HeadPlace, layout: Layout, group: number, n: number, top: number): Cell {
  const { cell, step, captions } = layout;
  const { x, y, columns, above } = layout.groups[group];
  return {
    place, size: cell, captions, x: x + (n % columns) * step,
    y: top + y + above + Math.floor(n / columns) * (cell + captions),
  };
}

function cellMarks(
  cell: Cell, values: Float32Array | undefined, side: Side, choices: Choices,
  measure: Frame['measure'],
): Mark[] {
  const { place, x, y, size } = cell;
  const marks = values === undefined ? notCaptured(cell) : [mapMark(cell, values, side)];
  if (values !== undefined) marks.push(box(x, y, size, size, { stroke: 'rule' }));
  if (chosen(place, choices)) {
    for (const out of [2, 3]) { // a line of two pixels
      const wide = size + 2 * out;
      marks.push(box(x - out, y - out, wide, wide, { stroke: 'accent', radius: 3 }));
    }
  }
  const pattern = choices.order === 'pattern';
  const name = pattern ? `${layerMark(side, place.layer)}·${place.number}` : `${place.number}`;
  marks.push(words(x, y + size + 13, name, FONT, { bold: true, limit: size }));
  if (place.score !== null) {
    const score = twoPlaces(place.score);
    marks.push(words(x + size, y + size + 13, score, FONT, { anchor: 'end' }));
  }
  if (!pattern && place.label !== '') {
    const label = fitting(inCell(place.label), size, measure);
    marks.push(words(x, y + size + 26, label, FONT, { fill: 'dim', limit: size }));
  }
  return marks;
}

function mapMark({ x, y, size }: Cell, values: Float32Array, side: Side): Mark {
  const [, rows, columns] = side.small.shape;
  return { kind: 'raster', x, y, w: size, h: size, rows, columns, values, signed: false };
}

const chosen = (place: HeadPlace, choices: Choices): boolean => (
  place.layer === choices.layer && choices.heads.includes(place.head));

function notCaptured({ x, y, size }: Cell): Mark[] {
  const [right, bottom, center] = [x + size, y + size, x + size / 2];
  const dashed = (x1: number, y1: number, x2: number, y2: number): Mark => (
    line(x1, y1, x2, y2, 'dim', { opacity: 0.7, dash: [3, 3] }));
  const look = { anchor: 'middle', fill: 'dim', limit: size } as const;
  return [
    dashed(x, y, right, y), dashed(right, y, right, bottom), dashed(right, bottom, x, bottom),
    dashed(x, bottom, x, y), words(center, y + size / 2 - 1, 'not', FONT, look),
    words(center, y + size / 2 + 12, 'captured', FONT, look),
  ];
}

// A label that is too long loses words from its end, not letters.
function fitting(label: string, width: number, measure: Frame['measure']): string {
  const all = label.split(' ');
  for (let kept = all.length; kept > 1; kept--) {
    const shown = all.slice(0, kept).join(' ') + (kept < all.length ? ' …' : '');
    if (measure(shown, FONT) <= width) return shown;
  }
  return all.length > 1 ? `${all[0]} …` : label;
}

function targetOf({ place, x, y, size, captions }: Cell, side: Side, choices: Choices): Target {
  const { label, score, layer, head } = place;
  const pattern = score === null ? label || UNLABELED : `${label} ${twoPlaces(score)}`;
  const state = chosen(place, choices) ? ', chosen' : '';
  return {
    x, y, w: size, h: size + captions - 4,
    label: `${layerTitle(side, layer)}, head ${place.number}: ${pattern}${state}`,
    key: `model/${layer}/${head}`,
    pick: { view: 'matrix', layer, heads: [head], mean: false },
    toggles: { what: 'heads', index: head, layer },
    tip: () => tipOf(place, side),
  };
}

// All scores, the highest first, each beside that of an untrained model.
function tipOf(place: HeadPlace, side: Side): string[] {
  const layer = side.layers[place.layer];
  const untrained = controlOf(side, place)?.scores;
  const beside = (name: string): string => (
    untrained?.[name] === undefined ? '' : ` (untrained ${twoPlaces(untrained[name])})`);
  const scores = Object.entries(layer.patterns[place.head]?.scores ?? {});
  return [
    `${layerTitle(side, place.layer)}, head ${place.number}: ${place.label || UNLABELED}`,
    inCell(`${layer.name}, ${layer.mechanism}`),
    ...scores.sort(([, one], [, other]) => other - one)
      .map(([name, score]) => `${name} ${twoPlaces(score)}${beside(name)}`),
  ];
}

function summaryOf(side: Side, choices: Choices): string {
  const patterns = byPattern(side).map(({ places }) => (
    `${places.length} ${places[0].label || 'without a pattern'}`));
  const total = (of: (layer: Side['layers'][number]) => number): number => (
    side.layers.reduce((sum, layer) => sum + of(layer), 0));
  const [kept, all] = [total((layer) => layer.heads.length), total((layer) => layer.all_heads)];
  const order = choices.order === 'pattern' ? 'grouped by pattern' : 'by layer';
  const left = all > kept ? `, ${all - kept} of ${all} not captured` : '';
  const heads = `${count(kept, 'head')} in ${count(side.layers.length, 'layer')} of ${side.label}`;
  return `${heads}, ${order}${left}: ${patterns.join(', ')}.`;
}

function table({ opened, choices }: Frame): Table {
  const side = opened.header.sides[choices.side];
  const names = scoreNames(side);
  const control = side.control === null ? [] : names.map((name) => `${name}, untrained`);
  const rows = grouped(side, choices).flatMap((group) => group.places).map((place) => {
    const layer = side.layers[place.layer];
    const scores = layer.patterns[place.head]?.scores;
    const untrained = controlOf(side, place)?.scores;
    return [
      place.layer, layer.name, layer.stack, layer.kind, layer.mechanism, place.number,
      place.head < 0 ? 'not captured' : place.label,
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
  about: 'Every head of every layer as a small map, with the pattern it follows.',
  missing: (opened, choices) => (
    opened.header.sides[choices.side].layers.length === 0 ? 'No layer was captured.' : null),
  needs: (_, choices) => [{ side: choices.side, small: true }],
  draw,
  table,
  controls: ['side', 'order', 'scale'],
};
