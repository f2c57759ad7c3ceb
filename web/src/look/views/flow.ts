// How attention adds up through layers: rollout, or weighted with gradients, for chosen tokens.
// Below it the chosen layer alone, so that one sees what the layers before have added.

import type { Opened } from '../capture';
import type { Choices } from '../choices';
import type { Picture, Side } from '../format';
import { largest, prepare, sumRows } from '../prepare';
import { inCell, isolate, number, quoted, whole } from '../../shared/text';
import type { Table } from '../../shared/table';
import type { Drawing, Frame, Mark, Need, Target, View } from '../view';
import {
  askingOf, flowingOf, flowPlace, togetherOf, type Asking, type FlowKind, type Flowing,
} from './flowing';
import { weightsNeeded } from './heads';
import { meanHead } from './lines';
import {
  cellAt, cellBox, cellsOf, crosshair, largestOf, panelHeight, panelMarks, poolingSaid, type Panel,
} from './panel';
import { box, layerTitle, paragraph } from './parts';
import {
  fitted, grayOf, gridMarks, heatMarks, patchAt, patchBox, pictureMark, rankMarks, strongest,
} from './picture';
import { flowing, runningMarks } from './running';

const PAD = 12;
const GAP = 24;
const WIDE = 980; // from here on the matrix stands beside the texts
const TALLEST = 640;
const PICTURE = 320; // pixels

const NAMES: Record<FlowKind, string> = {
  rollout: 'Rollout', gradient: 'Gradient-weighted attention',
};

function missing(opened: Opened, choices: Choices): string | null {
  const { flow: { rollout, gradient, reasons } } = opened.header.sides[choices.side];
  const has = { rollout: !!rollout?.length, gradient: !!gradient?.length };
  if (has[choices.flow]) return null;
  const other = choices.flow === 'rollout' ? 'gradient' : 'rollout';
  const reason = reasons[choices.flow] || 'It was not captured.';
  const why = reasons[other];
  const instead = has[other] ? ` ${NAMES[other]} is there: choose it under Flow.`
    : why && why !== reason ? ` ${NAMES[other]} neither: ${why}` : '';
  return `${NAMES[choices.flow]} cannot be shown. ${reason}${instead}`;
}

function needs(opened: Opened, choices: Choices): Need[] {
  const side = opened.header.sides[choices.side];
  const index = flowPlace(side, choices.flow, choices.layer);
  if (index < 0) return [];
  const layer = side.flow.layers[index];
  const { keys } = side.layers[layer];
  return [
    { side: choices.side, flow: choices.flow, index }, ...weightsNeeded(choices, layer),
    ...(side.sequences[keys].image ? [{ side: choices.side, image: keys }] : []),
  ];
}

interface Scene {
  side: Side;
  all: Flowing;
  asking: Asking;
  own: boolean; // queries and keys are the same tokens
  row: Float32Array; // through all layers
  alone: Float32Array; // of the layer alone
  aloneName: string;
  changed: string[];
}

function sceneOf(opened: Opened, choices: Choices): Scene {
  const side = opened.header.sides[choices.side];
  const all = flowingOf(opened, choices);
  const asking = askingOf(side, all.info, all.queries, choices);
  const seen = prepare(opened, choices, choices.side, all.layer);
  const norms = choices.weighting === 'norms' && all.info.norms;
  return {
    side, all, asking, changed: seen.changed, own: all.info.queries === all.info.keys,
    row: togetherOf(sumRows(all.matrix, all.keys.length, asking.rows), asking),
    alone: togetherOf(seen.sum(seen.heads, asking.rows), asking),
    aloneName: `${layerTitle(side, all.layer)} alone, ${meanHead(seen).name}${
      norms ? ', times the length of the value' : ''}`,
  };
}

function askedName({ all, asking }: Scene): string {
  if (asking.rows.length !== 1) return asking.said;
  const name = quoted(all.queries[asking.rows[0]].text);
  return asking.chosen ? name : `${asking.said} ${name}`;
}

function draw(frame: Frame): Drawing {
  const { opened, choices, width, measure } = frame;
  const scene = sceneOf(opened, choices);
  const { side, all, changed } = scene;
  const inner = width - 2 * PAD;
  const said = paragraph(explained(scene, choices), PAD, PAD, inner, 13, measure, { fill: 'ink' });
  const top = PAD + said.height + 12;
  const beside = width >= WIDE;
  const w = beside ? Math.floor(inner * 0.55) : inner;
  const upTo = `up to ${layerTitle(side, all.layer).toLowerCase()}`;
  const first = looked(frame, scene, scene.row, `${NAMES[choices.flow]} ${upTo}`, 'flow',
    { x: PAD, y: top, w });
  const two = first.width <= (w - GAP) / 2; // pictures, not texts
  const second = looked(frame, scene, scene.alone, scene.aloneName, 'alone', two
    ? { x: PAD + w / 2 + GAP / 2, y: top, w: (w - GAP) / 2 }
    : { x: PAD, y: top + first.height + GAP, w });
  const panel: Panel = {
    title: `${NAMES[choices.flow]} ${upTo}, all queries`, rows: all.queries, columns: all.keys,
    x: beside ? PAD + w + GAP : PAD, y: beside ? top : second.bottom + GAP,
    w: Math.min(TALLEST, beside ? inner - w - GAP : inner),
    h: frame.height - (beside ? top : 0), measure,
    values: all.matrix, signed: false, scale: choices.scale, most: 0,
  };
  panel.most = largestOf(panel);
  return {
    width, height: Math.max(first.bottom, second.bottom, panel.y + panelHeight(panel)) + PAD,
    marks: [...said.marks, ...first.marks, ...second.marks, ...panelMarks(panel),
      ...rowFrames(panel, scene)],
    targets: [...first.targets, ...second.targets],
    at: (x, y) => first.at(x, y) ?? second.at(x, y) ?? cellTarget(panel, x, y),
    summary: summaryOf(scene, choices),
    note: [noteOf(changed, choices), poolingSaid(panel)].filter(Boolean).join(' ') || undefined,
  };
}

function noteOf(changed: string[], { weighting }: Choices): string {
  if (changed.length === 0) return '';
  const norms = weighting === 'norms' ? ' Lengths of values count for the layer alone.' : '';
  return `Shown: ${changed.join('; ')}.${norms}`;
}

interface Looked {
  marks: Mark[];
  targets: Target[];
  width: number;
  height: number;
  bottom: number;
  at: (x: number, y: number) => Target | null;
}

interface Room {
  x: number;
  y: number;
  w: number;
}

// Keys shaded by what they get: running text, or the picture.
function looked(
  frame: Frame, scene: Scene, row: Float32Array, title: string, id: string, { x, y, w }: Room,
): Looked {
  const { side, all, own, asking } = scene;
  const { choices, measure } = frame;
  const sequence = side.sequences[all.info.keys];
  const most = largest(row);
  const head = paragraph(`${title}; the highest is ${number(most, 3)}`, x, y, w, 12, measure);
  const top = y + head.height + 6;
  if (sequence.image) {
    const over = overPicture(frame, scene, row, id, { x, y: top, w });
    const marks = [...head.marks, ...over.marks];
    return { ...over, marks, height: head.height + 6 + over.height };
  }
  const running = flowing(all.keys, sequence.tokens, x, top, w, measure);
  const some = own && asking.rows.length < all.queries.length;
  const asks = new Set(some ? asking.rows : []);
  return {
    marks: [...head.marks, ...runningMarks(running, all.keys, {
      values: row, most, scale: choices.scale, search: choices.search,
      chosen: (i) => asks.has(i), later: () => false,
    })],
    targets: all.keys.map((_, i) => ({ ...running.boxes[i], ...keyTarget(scene, row, i, id) })),
    width: w, height: head.height + 6 + running.height, bottom: top + running.height,
    at: () => null,
  };
}

function overPicture(
  { opened, choices }: Frame, scene: Scene, row: Float32Array, id: string, room: Room,
): Looked {
  const image = scene.side.sequences[scene.all.info.keys].image as Picture; // looked has seen it
  const place = fitted(image, room.x, room.y, Math.min(room.w, PICTURE), PICTURE);
  const target = (token: number): Target => (
    { ...patchBox(place, image, token), ...keyTarget(scene, row, token, id) });
  return {
    marks: [
      pictureMark(place, image, grayOf(opened, image)), ...gridMarks(place, image),
      ...heatMarks(place, image, row, largest(row), choices.scale),
      ...rankMarks(place, image, strongest(row, image, 3)),
    ],
    targets: [target(image.first)],
    width: place.w, height: place.h, bottom: place.y + place.h,
    at: (x, y) => {
      const token = patchAt(place, image, x, y);
      return token < 0 ? null : target(token);
    },
  };
}

function keyTarget(
  scene: Scene, row: Float32Array, index: number, id: string,
): Omit<Target, 'x' | 'y' | 'w' | 'h'> {
  const { all, asking, own } = scene;
  const item = all.keys[index];
  const asks = own && asking.rows.length < all.queries.length && asking.rows.includes(index);
  return {
    label: `${quoted(item.text)} gets ${number(row[index])}${asks ? ', asks' : ''}`,
    key: `flow/${id}/${index}`,
    pick: own ? { queries: item.tokens } : undefined,
    toggles: own ? { what: 'queries', index: item.tokens[0] } : undefined,
    tip: () => [whole(item.text), `gets ${number(row[index], 5)} from ${askedName(scene)}`,
      ...(own && !asks ? ['click: what reaches it'] : [])],
  };
}

function cellTarget(panel: Panel, x: number, y: number): Target | null {
  const cell = cellAt(panel, x, y);
  if (!cell) return null;
  const [row, column] = cell;
  const [query, key] = [panel.rows[row], panel.columns[column]];
  const value = number(panel.values[row * panel.columns.length + column], 5);
  const name = `${quoted(query.text)} from ${quoted(key.text)}`;
  return {
    ...cellBox(panel, row, column), key: `flow/cell/${row}/${column}`, label: `${name}: ${value}`,
    pick: { queries: query.tokens }, toggles: { what: 'queries', index: query.tokens[0] },
    tip: () => [name, value, 'click: this row'],
    over: () => crosshair(panel, row, column),
  };
}

// Around the rows that are shown beside the matrix.
function rowFrames(panel: Panel, { asking, all }: Scene): Mark[] {
  if (asking.rows.length === all.queries.length) return [];
  const { x, w } = cellsOf(panel);
  return asking.rows.map((row) => {
    const { y, h } = cellBox(panel, row, 0);
    return box(x - 1, y - 1, w + 2, Math.max(3, h + 2), { stroke: 'accent' });
  });
}

function explained(scene: Scene, choices: Choices): string {
  const { side, all } = scene;
  const target = isolate(inCell(side.flow.target)) || 'the output';
  const what = choices.flow === 'rollout'
    ? 'Rollout multiplies the layers: in each a token keeps half of itself (the residual '
      + 'connection) and takes the other half by the mean attention of all heads.'
    : 'Layers add up the positive part of attention times its gradient, as shares of the largest '
      + `row; the gradient is of ${target}.`;
  const nearest = all.layer === choices.layer ? ''
    : ` ${layerTitle(side, choices.layer)} has no map of its own; this is that of ${
      layerTitle(side, all.layer).toLowerCase()}.`;
  return `What reaches ${askedName(scene)} from each token. ${what}${nearest}`;
}

function summaryOf(scene: Scene, choices: Choices): string {
  const { row, all, side } = scene;
  const order = Array.from(row.keys()).filter((i) => row[i] !== 0)
    .sort((a, b) => Math.abs(row[b]) - Math.abs(row[a])).slice(0, 3);
  const most = order.map((i) => `${quoted(all.keys[i].text)} (${number(row[i], 3)})`).join(', ');
  return `${NAMES[choices.flow]} up to ${layerTitle(side, all.layer).toLowerCase()}: ${
    askedName(scene)} draws most on ${most || 'nothing'}.`;
}

function table({ opened, choices }: Frame): Table {
  const scene = sceneOf(opened, choices);
  const { all, row, alone } = scene;
  return {
    title: summaryOf(scene, choices),
    header: ['position', 'token', NAMES[choices.flow], scene.aloneName],
    rows: all.keys.map((item, i) => [item.tokens[0], item.text, row[i], alone[i]]),
  };
}

export const flow: View = {
  id: 'flow',
  key: 'f',
  title: 'Flow',
  about: 'What reaches a token through all layers: attention rollout, or weighted with gradients.',
  missing,
  needs,
  draw,
  table,
  controls: ['side', 'flow', 'layer', 'heads', 'queries', 'scale', 'sinks', 'words', 'weighting',
    'threshold', 'top', 'search'],
  layers: (opened, choices) => opened.header.sides[choices.side].flow.layers,
};
