// The flow view: attention through all layers (rollout or gradient-weighted) for selected tokens.
// Below it the selected layer alone, so that you see what the earlier layers added.

import type { Capture } from '../capture';
import type { Choices } from '../choices';
import type { Picture, Side } from '../capture-format';
import { maxAbs, prepareWeights, sumRows } from '../prepare-weights';
import { inCell, isolate, number, quoted, sensible, whole, wholePercent } from '../../shared/readable-text';
import type { Table } from '../../shared/table-type';
import type { Drawing, Frame, Mark, Need, Target, View } from '../view';
import {
  selectQueryRows, readFlowMatrix, flowMapIndex, combineRows, type QueryRows, type FlowKind,
    type FlowMatrix,
} from './flow-data';
import { weightsNeeded } from './heads';
import { meanHead } from './strongest-lines';
import {
  cellAt, cellRect, cellsRect, crosshair, largestValue, panelHeight, panelMarks, describePooling,
    type HeatmapPanel,
} from './heatmap-panel';
import { rectMark, layerTitle, paragraph } from './marks';
import {
  fitPicture, lowContrastGray, gridMarks, heatMarks, patchAt, patchRect, pictureMark, rankMarks,
    strongestPatches,
} from './image-marks';
import { layOutText, shadedTextMarks } from './shaded-text';

const PADDING = 12;
const GAP = 24;
const WIDE_PIXELS = 980; // wider pages show the matrix beside the texts
const MAX_MATRIX_PIXELS = 640;
const PICTURE_PIXELS = 320; // pixels
const LEAST_SHARE = 0.01; // a token with less is not in the sentence

const NAMES: Record<FlowKind, string> = {
  rollout: 'Rollout', gradient: 'Gradient-weighted attention',
};

function missingReason(capture: Capture, choices: Choices): string | null {
  const { flow: { rollout, gradient, reasons } } = capture.header.sides[choices.side];
  const available = { rollout: !!rollout?.length, gradient: !!gradient?.length };
  if (available[choices.flow]) return null;
  const other = choices.flow === 'rollout' ? 'gradient' : 'rollout';
  const reason = reasons[choices.flow] || 'The capture does not contain it.';
  const otherReason = reasons[other];
  const alternative = available[other] ? ` ${NAMES[other]} is available: select it under Flow.`
    : otherReason && otherReason !== reason ? ` ${NAMES[other]} is missing too. ${otherReason}`
      : '';
  return `${NAMES[choices.flow]} cannot be shown. ${reason}${alternative}`;
}

function needs(capture: Capture, choices: Choices): Need[] {
  const side = capture.header.sides[choices.side];
  const index = flowMapIndex(side, choices.flow, choices.layer);
  if (index < 0) return [];
  const layer = side.flow.layers[index];
  const { keys } = side.layers[layer];
  return [
    { side: choices.side, flow: choices.flow, index }, ...weightsNeeded(choices, layer),
    ...(side.sequences[keys].image ? [{ side: choices.side, image: keys }] : []),
  ];
}

interface FlowScene {
  side: Side;
  flowMatrix: FlowMatrix;
  queryRows: QueryRows;
  selfAttention: boolean; // queries and keys are the same tokens
  row: Float32Array; // through all layers
  singleLayerRow: Float32Array; // of the layer alone
  singleLayerName: string;
  adjustments: string[];
}

function makeScene(capture: Capture, choices: Choices): FlowScene {
  const side = capture.header.sides[choices.side];
  const flowMatrix = readFlowMatrix(capture, choices);
  const queryRows = selectQueryRows(side, flowMatrix.info, flowMatrix.queries, choices);
  const prepared = prepareWeights(capture, choices, choices.side, flowMatrix.layer);
  const norms = choices.weighting === 'norms' && flowMatrix.info.norms;
  return {
    side, flowMatrix, queryRows, adjustments: prepared.adjustments,
      selfAttention: flowMatrix.info.queries === flowMatrix.info.keys,
    row: combineRows(sumRows(flowMatrix.matrix, flowMatrix.keys.length, queryRows.rows), queryRows),
    singleLayerRow: combineRows(prepared.sum(prepared.heads, queryRows.rows), queryRows),
    singleLayerName: `${layerTitle(side, flowMatrix.layer)} alone, ${meanHead(prepared).name}${
      norms ? ', times the norm of the value' : ''}`,
  };
}

function queryName({ flowMatrix, queryRows }: FlowScene): string {
  if (queryRows.rows.length !== 1) return queryRows.description;
  const name = quoted(flowMatrix.queries[queryRows.rows[0]].text);
  return queryRows.chosenByUser ? name : `${queryRows.description} ${name}`;
}

function draw(frame: Frame): Drawing {
  const { capture, choices, width, measure } = frame;
  const scene = makeScene(capture, choices);
  const { side, flowMatrix, adjustments } = scene;
  const inner = width - 2 * PADDING;
  const introduction = paragraph(explain(scene, choices), PADDING, PADDING, inner, 13, measure,
    { fill: 'ink' });
  const top = PADDING + introduction.height + 12;
  const sideBySide = width >= WIDE_PIXELS;
  const w = sideBySide ? Math.floor(inner * 0.55) : inner;
  const upToLayer = `up to ${layerTitle(side, flowMatrix.layer).toLowerCase()}`;
  const flowPart = keysPart(frame, scene, scene.row, `${NAMES[choices.flow]} ${upToLayer}`, 'flow',
    { x: PADDING, y: top, w });
  const fitsBeside = flowPart.width <= (w - GAP) / 2; // pictures, not texts
  const singleLayerPart = keysPart(frame, scene, scene.singleLayerRow, scene.singleLayerName,
    'alone', fitsBeside
    ? { x: PADDING + w / 2 + GAP / 2, y: top, w: (w - GAP) / 2 }
    : { x: PADDING, y: top + flowPart.height + GAP, w });
  const panel: HeatmapPanel = {
    title: `${NAMES[choices.flow]} ${upToLayer}, all queries`, rows: flowMatrix.queries,
      columns: flowMatrix.keys,
    x: sideBySide ? PADDING + w + GAP : PADDING, y: sideBySide ? top : singleLayerPart.bottom + GAP,
    w: Math.min(MAX_MATRIX_PIXELS, sideBySide ? inner - w - GAP : inner),
    h: frame.height - (sideBySide ? top : 0), measure,
    values: flowMatrix.matrix, signed: false, scale: choices.scale, fullColorValue: 0,
  };
  panel.fullColorValue = largestValue(panel);
  return {
    width, height: Math.max(flowPart.bottom, singleLayerPart.bottom,
      panel.y + panelHeight(panel)) + PADDING,
    marks: [...introduction.marks, ...flowPart.marks, ...singleLayerPart.marks,
      ...panelMarks(panel),
      ...rowFrames(panel, scene)],
    targets: [...flowPart.targets, ...singleLayerPart.targets],
    targetAt: (x, y) => flowPart.at(x, y) ?? singleLayerPart.at(x, y) ?? cellTarget(panel, x, y),
    summary: summarize(scene, choices),
    note: [describeAdjustments(adjustments, choices),
      describePooling(panel)].filter(Boolean).join(' ') || undefined,
  };
}

function describeAdjustments(adjustments: string[], { weighting }: Choices): string {
  if (adjustments.length === 0) return '';
  const norms = weighting === 'norms' ? ' Value norms apply to the single layer only.' : '';
  return `Displayed: ${adjustments.join('; ')}.${norms}`;
}

interface KeysPart {
  marks: Mark[];
  targets: Target[];
  width: number;
  height: number;
  bottom: number;
  at: (x: number, y: number) => Target | null;
}

interface Area {
  x: number;
  y: number;
  w: number;
}

// Keys shaded by the attention they get: as text, or as patches of the picture.
function keysPart(
  frame: Frame, scene: FlowScene, row: Float32Array, title: string, id: string, { x, y, w }: Area,
): KeysPart {
  const { side, flowMatrix, selfAttention, queryRows } = scene;
  const { choices, measure } = frame;
  const sequence = side.sequences[flowMatrix.info.keys];
  const largest = maxAbs(row);
  const heading = paragraph(`${title}; the highest is ${sensible(largest)}`, x, y, w, 12, measure);
  const top = y + heading.height + 6;
  if (sequence.image) {
    const picture = picturePart(frame, scene, row, id, { x, y: top, w });
    const marks = [...heading.marks, ...picture.marks];
    return { ...picture, marks, height: heading.height + 6 + picture.height };
  }
  const layout = layOutText(flowMatrix.keys, sequence.tokens, x, top, w, measure);
  const hasSelection = selfAttention && queryRows.rows.length < flowMatrix.queries.length;
  const queryIndices = new Set(hasSelection ? queryRows.rows : []);
  return {
    marks: [...heading.marks, ...shadedTextMarks(layout, flowMatrix.keys, {
      values: row, largest, scale: choices.scale, search: choices.search,
      isSelected: (i) => queryIndices.has(i), isLater: () => false,
    })],
    targets: flowMatrix.keys.map((_, i) =>
      ({ ...layout.boxes[i], ...keyTarget(scene, row, i, id) })),
    width: w, height: heading.height + 6 + layout.height, bottom: top + layout.height,
    at: () => null,
  };
}

function picturePart(
  { capture, choices }: Frame, scene: FlowScene, row: Float32Array, id: string, area: Area,
): KeysPart {
  const image = scene.side.sequences[scene.flowMatrix.info.keys].image as Picture; // the caller has checked it
  const rect = fitPicture(image, area.x, area.y, Math.min(area.w, PICTURE_PIXELS), PICTURE_PIXELS);
  const target = (token: number): Target => (
    { ...patchRect(rect, image, token), ...keyTarget(scene, row, token, id) });
  return {
    marks: [
      pictureMark(rect, image, lowContrastGray(capture, image)), ...gridMarks(rect, image),
      ...heatMarks(rect, image, row, maxAbs(row), choices.scale),
      ...rankMarks(rect, image, strongestPatches(row, image, 3)),
    ],
    targets: [target(image.first)],
    width: rect.w, height: rect.h, bottom: rect.y + rect.h,
    at: (x, y) => {
      const token = patchAt(rect, image, x, y);
      return token < 0 ? null : target(token);
    },
  };
}

function keyTarget(
  scene: FlowScene, row: Float32Array, index: number, id: string,
): Omit<Target, 'x' | 'y' | 'w' | 'h'> {
  const { flowMatrix, queryRows, selfAttention } = scene;
  const item = flowMatrix.keys[index];
  const isQuery = selfAttention && queryRows.rows.length < flowMatrix.queries.length
    && queryRows.rows.includes(index);
  return {
    label: `${quoted(item.text)} gets ${number(row[index])}${isQuery ? ', query' : ''}`,
    key: `flow/${id}/${index}`,
    pick: selfAttention ? { queries: item.tokens } : undefined,
    toggles: selfAttention ? { set: 'queries', index: item.tokens[0] } : undefined,
    tooltip: () => [whole(item.text), `gets ${number(row[index], 5)} from ${queryName(scene)}`,
      ...(selfAttention && !isQuery ? ['click to use it as the query'] : [])],
  };
}

function cellTarget(panel: HeatmapPanel, x: number, y: number): Target | null {
  const cell = cellAt(panel, x, y);
  if (!cell) return null;
  const [row, column] = cell;
  const [query, key] = [panel.rows[row], panel.columns[column]];
  const value = number(panel.values[row * panel.columns.length + column], 5);
  const name = `${quoted(query.text)} to ${quoted(key.text)}`;
  return {
    ...cellRect(panel, row, column), key: `flow/cell/${row}/${column}`, label: `${name}: ${value}`,
    pick: { queries: query.tokens }, toggles: { set: 'queries', index: query.tokens[0] },
    tooltip: () => [name, value, 'click to select this row'],
    overlay: () => crosshair(panel, row, column),
  };
}

// Frames around the selected rows of the matrix.
function rowFrames(panel: HeatmapPanel, { queryRows, flowMatrix }: FlowScene): Mark[] {
  if (queryRows.rows.length === flowMatrix.queries.length) return [];
  const { x, w } = cellsRect(panel);
  return queryRows.rows.map((row) => {
    const { y, h } = cellRect(panel, row, 0);
    return rectMark(x - 1, y - 1, w + 2, Math.max(3, h + 2), { stroke: 'accent' });
  });
}

function explain(scene: FlowScene, choices: Choices): string {
  const { side, flowMatrix } = scene;
  const target = isolate(inCell(side.flow.target)) || 'the output';
  const method = choices.flow === 'rollout'
    ? 'Rollout multiplies the attention matrices of all layers. In each layer a token keeps half of '
      + 'itself (the residual connection) and takes the other half by the mean attention of all heads.'
    : 'It adds up, over layers, the positive part of attention times its gradient, relative to the '
      + `largest row. The gradient is that of ${target}.`;
  const nearestNote = flowMatrix.layer === choices.layer ? ''
    : ` ${layerTitle(side, choices.layer)} has no map of its own; this is the map of ${
      layerTitle(side, flowMatrix.layer).toLowerCase()}.`;
  return `How much each token contributes to ${queryName(scene)}. ${method}${nearestNote}`;
}

function summarize(scene: FlowScene, choices: Choices): string {
  const { row, flowMatrix, side } = scene;
  const total = row.reduce((sum, value) => sum + Math.abs(value), 0);
  const strongest = Array.from(row.keys()).filter((i) => Math.abs(row[i]) > LEAST_SHARE * total)
    .sort((a, b) => Math.abs(row[b]) - Math.abs(row[a])).slice(0, 3);
  const share = (value: number): string => (
    choices.flow === 'rollout' ? wholePercent(value) : sensible(value));
  const list = strongest.map((i) => `${quoted(flowMatrix.keys[i].text)} (${share(row[i])})`).join(', ');
  return `${NAMES[choices.flow]} up to ${layerTitle(side, flowMatrix.layer).toLowerCase()}: ${
    queryName(scene)} attends most to ${list || 'nothing'}.`;
}

function table({ capture, choices }: Frame): Table {
  const scene = makeScene(capture, choices);
  const { flowMatrix, row, singleLayerRow } = scene;
  return {
    title: summarize(scene, choices),
    header: ['position', 'token', NAMES[choices.flow], scene.singleLayerName],
    rows: flowMatrix.keys.map((item, i) => [item.tokens[0], item.text, row[i], singleLayerRow[i]]),
  };
}

export const flow: View = {
  id: 'flow',
  key: 'f',
  title: 'Flow',
  description: 'Attention through all layers: attention rollout, or weighted with gradients.',
  missingReason,
  needs,
  draw,
  table,
  controls: ['side', 'flow', 'layer', 'heads', 'queries', 'scale', 'sinks', 'words', 'weighting',
    'threshold', 'top', 'search'],
  layers: (capture, choices) => capture.header.sides[choices.side].flow.layers,
};
