// The heads view: tokens in two columns, and a line for each weight in the color of its head.

import type { Capture } from '../capture';
import type { Choices } from '../choices';
import { layerTitle } from '../names';
import { itemIndices, prepareWeights, type PreparedWeights } from '../prepare-weights';
import { count, number, quoted, wholePercent } from '../../shared/readable-text';
import type { Table } from '../../shared/table-type';
import type { Drawing, Frame, Mark, Need, View } from '../view';
import { PADDING, layOutHeads, type HeadsLayout } from './heads-layout';
import {
  headingMarks,
  labelMarks,
  lineMarks,
  ruleMarks,
  selectedWeights,
  stripMarks,
  weightMarks,
} from './heads-marks';
import { tokenTargets } from './heads-targets';
import { displayedHeads, meanHead, strongestLines, type DisplayedHead, type LineSet } from './strongest-lines';

export function weightsNeeded(choices: Choices, layer: number): Need[] {
  return [
    {
      side: choices.side,
      layer,
      parts: choices.weighting === 'norms' ? ['weights', 'norms'] : ['weights'],
    },
  ];
}

// Indices of the selected items; null means all.
function selectedIndices(prepared: PreparedWeights, choices: Choices) {
  return {
    queryIndices: choices.queries.length ? itemIndices(prepared.queries, choices.queries) : null,
    keyIndices: choices.key === null ? null : itemIndices(prepared.keys, [choices.key]),
  };
}

function linesToDraw(
  prepared: PreparedWeights,
  displayed: ReturnType<typeof displayedHeads>,
  choices: Choices,
): LineSet {
  const { queryIndices, keyIndices } = selectedIndices(prepared, choices);
  const [keys, queries] = [prepared.keys.length, prepared.queries.length];
  return strongestLines(displayed, keys, queryIndices, keyIndices, queries, choices.scale);
}

export function drawHeads(frame: Frame, layer: number): Drawing {
  const { choices } = frame;
  const layout = layOutHeads(frame, layer);
  const { prepared, displayed, columns, top, rowHeight } = layout;
  const { queryIndices, keyIndices } = selectedIndices(prepared, choices);
  const lines = linesToDraw(prepared, displayed, choices);
  const weights = columns.map((each) => selectedWeights(layout, each, queryIndices, keyIndices));
  const marks: Mark[] = [
    ...headingMarks(layout, frame, layer),
    ...ruleMarks(layout, frame, layer),
    ...lineMarks(layout, lines, choices),
    ...stripMarks(layout, queryIndices, keyIndices, choices),
    ...columns.flatMap((each, i) => (weights[i] ? weightMarks(layout, each, weights[i], choices) : [])),
    ...labelMarks(layout, columns[0], queryIndices, weights[0], choices),
    ...labelMarks(layout, columns[1], keyIndices, weights[1], choices),
  ];
  return {
    width: frame.width,
    height: top + rowHeight * Math.max(prepared.queries.length, prepared.keys.length) + PADDING,
    marks,
    targets: [
      ...tokenTargets(layout, columns[0], choices),
      ...tokenTargets(layout, columns[1], choices),
    ],
    summary: summarize(layout, frame, layer, queryIndices, keyIndices),
    note: describeLeftOut(lines),
  };
}

function summarize(
  layout: HeadsLayout,
  frame: Frame,
  layer: number,
  queryIndices: number[] | null,
  keyIndices: number[] | null,
): string {
  const { prepared, displayed } = layout;
  const side = frame.capture.header.sides[frame.choices.side];
  if (queryIndices?.length === 1 && !keyIndices)
    return `${layerTitle(side, layer)}, ${describeQuery(prepared, queryIndices[0])}.`;
  const from = queryIndices
    ? queryIndices
        .map((i) => quoted(prepared.queries[i].text))
        .slice(0, 5)
        .join(', ')
    : count(prepared.queries.length, 'query').replace('querys', 'queries');
  const to = keyIndices?.length
    ? quoted(prepared.keys[keyIndices[0]].text)
    : count(prepared.keys.length, 'key');
  return (
    `${layerTitle(side, layer)}, ` +
    `${displayed.length > 1 ? count(displayed.length, 'head') : displayed[0].name}: ` +
    `attention from ${from}${queryIndices && queryIndices.length > 5 ? ', …' : ''} to ${to}.`
  );
}

// "head 1: “it” attends mostly to “animal” (64%)"
export function describeQuery(
  prepared: PreparedWeights,
  query: number,
  mean: DisplayedHead = meanHead(prepared),
): string {
  const row = mean.row(query);
  const order = Array.from(row.keys())
    .filter((key) => row[key] !== 0)
    .sort((one, other) => Math.abs(row[other]) - Math.abs(row[one]));
  const share = (key: number): string =>
    prepared.layer.normalised && prepared.unchanged ? wholePercent(row[key]) : number(row[key], 2);
  const name = (key: number): string => `${quoted(prepared.keys[key].text)} (${share(key)})`;
  const subject = `${mean.name}: ${quoted(prepared.queries[query].text)}`;
  if (!order.length) return `${subject} attends to no visible token`;
  const [first, second] = order;
  if (Math.abs(row[first]) >= 0.5 || second === undefined)
    return `${subject} attends mostly to ${name(first)}`;
  return `${subject} attends most to ${name(first)}, then to ${name(second)}`;
}

function describeLeftOut(lines: LineSet): string | undefined {
  if (!lines.leftOut) return undefined;
  const which =
    lines.keepEvery > 1
      ? `weights below ${number(lines.cut)}, and most of those just above it`
      : `weights below ${number(lines.cut)}`;
  const leftOutCount = lines.leftOutEstimated
    ? `about ${Number(lines.leftOut.toPrecision(2)).toLocaleString('en')}`
    : lines.leftOut.toLocaleString('en');
  return (
    `${count(lines.size, 'line')} drawn; ${leftOutCount} left out: ${which}. ` +
    'Point at a token or select fewer heads to see them.'
  );
}

export function linesTable(frame: Frame, layer: number): Table {
  const { choices } = frame;
  const prepared = prepareWeights(frame.capture, choices, choices.side, layer);
  const displayed = displayedHeads(prepared, choices);
  const lines = linesToDraw(prepared, displayed, choices);
  const order = Array.from({ length: lines.size }, (_, i) => i).sort(
    (one, other) => Math.abs(lines.weights[other]) - Math.abs(lines.weights[one]),
  );
  const side = frame.capture.header.sides[choices.side];
  return {
    title: `${layerTitle(side, layer)}: the drawn lines, strongest first`,
    header: ['head', 'query', 'query token', 'key', 'key token', 'weight'],
    rows: order.map((i) => {
      const [query, key] = [prepared.queries[lines.queries[i]], prepared.keys[lines.keys[i]]];
      const { head } = displayed[lines.headIndices[i]];
      return [
        head < 0 ? 'mean' : prepared.layer.heads[head],
        query.tokens[0],
        query.text,
        key.tokens[0],
        key.text,
        Number(lines.weights[i].toPrecision(5)),
      ];
    }),
  };
}

export const missingLayers = (capture: Capture, choices: Choices): string | null =>
  capture.header.sides[choices.side].layers.length ? null : 'This capture has no attention layers.';

export const heads: View = {
  id: 'heads',
  key: 'e',
  title: 'Heads',
  description: 'Lines from each token to the tokens it attends to, in the colors of the heads.',
  missingReason: missingLayers,
  needs: (_, choices) => weightsNeeded(choices, choices.layer),
  draw: (frame) => drawHeads(frame, frame.choices.layer),
  table: (frame) => linesTable(frame, frame.choices.layer),
  controls: [
    'side',
    'layer',
    'heads',
    'queries',
    'scale',
    'threshold',
    'top',
    'sinks',
    'words',
    'weighting',
    'search',
  ],
};
