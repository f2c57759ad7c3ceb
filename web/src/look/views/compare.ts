// The compare view: the same head of two models, of two inputs, or trained and untrained; their
// difference; and all heads ranked by how much they changed.

import type { Capture } from '../capture';
import type { Choices } from '../choices';
import type { Side } from '../capture-format';
import { headName, sideName } from '../names';
import type { Item } from '../prepare-weights';
import { inCell, isolate, number, quoted, sensible } from '../../shared/readable-text';
import type { Table } from '../../shared/table-type';
import type { Drawing, Frame, Mark, Need, Target, View } from '../view';
import { rankHeads, rankingNeeds, type Ranking } from './head-change';
import { cellTargetAt } from './compare-cells';
import { headGrid, type HeadGrid } from './compare-head-grid';
import { weightsNeeded } from './heads';
import { describeHeads, patternLabel, makeMaps, makePair, type ComparedMaps,
  type ComparedPair } from './compare-data';
import { largestValue, panelHeight, panelMarks, describePooling,
  type HeatmapPanel } from './heatmap-panel';
import { capitalize, rectMark, layerTitle, paragraph, textMark } from './marks';
import { rankedList } from './compare-ranking';
import {
  describeAlignment, describeChange, describeCorrespondence, describePredictions, changeOfPair,
  explainDefaultHead,
} from './compare-descriptions';

const PADDING = 12;
const GAP = 20;
const NARROW_PIXELS = 760; // narrower pages stack the maps
const MAX_MAP_PIXELS = 720; // largest map, in pixels
const MIN_MAP_HEIGHT = 420;
const MAX_TABLE_ROWS = 250000; // limit of the table

function missingReason(capture: Capture): string | null {
  const [first, second] = capture.header.sides;
  if (second === undefined) {
    return 'Nothing to compare: this capture has one side. Run attnlab look again with another model '
      + '(--compare), the untrained model (--untrained) or another text (--compare-text).';
  }
  const empty = [first, second].find((side) => side.layers.length === 0);
  return empty ? `No layer of ${sideName(empty)} was captured.` : null;
}

function needs(capture: Capture, choices: Choices): Need[] {
  const { left, right } = makePair(capture, choices);
  return [
    ...weightsNeeded(choices, left.layer),
    ...weightsNeeded({ ...choices, side: right.index }, right.layer),
    ...rankingNeeds(capture, choices.side, choices.order === 'change'),
  ];
}

function draw(frame: Frame): Drawing {
  const { capture, choices, width, measure } = frame;
  const ranking = rankHeads(capture, choices.side);
  const effectiveChoices = withDefaultHead(ranking, choices);
  const pair = makePair(capture, effectiveChoices);
  const maps = makeMaps(capture, effectiveChoices, pair);
  const change = changeOfPair(capture, pair);
  const inner = width - 2 * PADDING;
  const isSame = ranking.exact && ranking.changes.every((each) => each.change === 0);
  const sentences = [describeAlignment(maps), describeCorrespondence(pair), describePredictions(pair),
    describeChange(change), effectiveChoices === choices || isSame ? '' : explainDefaultHead(ranking.exact)].filter(Boolean);
  const paragraphBlock = paragraph(sentences.join(' '), PADDING, PADDING, inner, 13, measure,
    { fill: 'ink' });
  const panels = makePanels(frame, pair, maps, PADDING + paragraphBlock.height + 10);
  const gridTop = Math.max(...panels.map((panel) => panel.y + panelHeight(panel))) + GAP;
  const heads = makeHeadsBlock(frame, pair, ranking, gridTop);
  const notes = [describeAdjustments(maps), describePooling(panels[0]), heads.note].filter(Boolean);
  return {
    width, height: heads.bottom + PADDING,
    marks: [...paragraphBlock.marks, ...panels.flatMap(panelMarks), ...heads.marks],
    targets: heads.targets,
    targetAt: (x, y) => cellTargetAt(panels, pair, maps, x, y),
    summary: summarize(pair, panels[2], ranking, change),
    note: notes.join(' ') || undefined,
  };
}

// If the user selected no heads and no mean: the head of the layer that changed most.
function withDefaultHead(ranking: Ranking, choices: Choices): Choices {
  if (choices.heads.length > 0 || choices.mean) return choices;
  const first = ranking.changes.find((each) => each.layer === choices.layer);
  return first ? { ...choices, heads: [first.head] } : choices;
}

const describeAdjustments = ({ left }: ComparedMaps): string => (
  left.adjustments.length === 0 ? '' : `Displayed: ${left.adjustments.join('; ')}.`);

// Both sides share one scale, so that equal colors mean equal weights. The difference has its own.
function makePanels(frame: Frame, pair: ComparedPair, maps: ComparedMaps,
  y: number): HeatmapPanel[] {
  const inner = frame.width - 2 * PADDING;
  const sideBySide = frame.width >= NARROW_PIXELS;
  const hasDifference = maps.difference.length > 0;
  const panelCount = hasDifference ? 3 : 2;
  const panelWidth = sideBySide ? Math.floor((inner - (panelCount - 1) * GAP) / panelCount) : inner;
  const w = Math.min(panelWidth, MAX_MAP_PIXELS);
  const signed = maps.left.signed || maps.right.signed;
  const panel = (title: string, rows: Item[], columns: Item[],
    values: Float32Array): HeatmapPanel => (
    { title, x: PADDING, y, w, h: Math.max(frame.height - y, MIN_MAP_HEIGHT),
      measure: frame.measure,
      rows, columns, values, fullColorValue: 0, signed, scale: frame.choices.scale });
  const panels = ([[pair.left, maps.left, maps.leftValues],
    [pair.right, maps.right, maps.rightValues]] as const).map(([half, prepared, values]) => (
    panel(`${sideName(half.side)}: ${describeHeads(half)}`, prepared.queries, prepared.keys,
      values)));
  if (hasDifference) {
    const rows = Array.from(maps.queries.left, (i) => maps.left.queries[i]);
    const columns = Array.from(maps.keys.left, (i) => maps.left.keys[i]);
    const title = 'Difference: the second map minus the first';
    panels.push({ ...panel(title, rows, columns, maps.difference), signed: true });
  }
  const largest = largestValue(panels[0], panels[1]);
  let [left, top] = [PADDING, y];
  const place = (i: number): HeatmapPanel => {
    const placed = { ...panels[i], x: left, y: top, fullColorValue: i < 2 ? largest
      : largestValue(panels[i]) };
    if (sideBySide) left += w + GAP;
    else top += panelHeight(placed) + GAP;
    return placed;
  };
  if (!hasDifference) return [place(0), place(1)];
  const difference = place(2); // first on the page: it is the answer
  return [place(0), place(1), difference];
}

interface HeadsBlock {
  marks: Mark[];
  targets: Drawing['targets'];
  bottom: number;
  note: string;
}

// Grids to select heads from, and a list of the heads that changed most.
function makeHeadsBlock(frame: Frame, pair: ComparedPair, ranking: Ranking, y: number): HeadsBlock {
  const { width, measure } = frame;
  const inner = width - 2 * PADDING;
  const explanation = paragraph(ranking.explanation, PADDING, y + 22, inner, 12, measure);
  const button = ranking.exact ? null
    : rankExactlyButton(PADDING, y + 22 + explanation.height + 8, measure);
  const top = y + 22 + explanation.height + 12 + (button ? button.h + 10 : 0);
  const sideBySide = width >= NARROW_PIXELS;
  const gridWidth = sideBySide ? Math.floor(inner * 0.42) : inner;
  const grids = makeGrids(frame.capture, pair, ranking, top, gridWidth);
  const last = grids[grids.length - 1];
  const list = rankedList({
    ranking, pair, measure, heads: pair.left.heads, layer: pair.left.layer,
    x: sideBySide ? PADDING + gridWidth + GAP : PADDING, y: sideBySide ? top
      : last.y + last.height + GAP,
    w: sideBySide ? inner - gridWidth - GAP : inner,
  });
  return {
    marks: [textMark(PADDING, y + 14, 'Heads ranked by change', 14, { bold: true }),
      ...explanation.marks,
      ...(button ? button.marks : []),
      ...grids.flatMap((grid) => grid.marks), ...list.marks],
    targets: [...list.targets, ...(button ? [button.target] : []),
      ...grids.flatMap((grid) => grid.targets)],
    bottom: Math.max(last.y + last.height, list.y + list.height),
    note: list.note,
  };
}

const RANK_EXACTLY = 'Load all weights and rank exactly';

function rankExactlyButton(x: number, y: number, measure: Frame['measure']): {
  marks: Mark[]; target: Target; h: number;
} {
  const [w, h] = [measure(RANK_EXACTLY, 12) + 20, 24];
  return {
    h, marks: [rectMark(x, y, w, h, { fill: 'card', stroke: 'dim', radius: 4 }),
      textMark(x + 10, y + 16, RANK_EXACTLY, 12, { limit: w - 12 })],
    target: { x, y, w, h, label: RANK_EXACTLY, key: 'compare/exact', pick: { order: 'change' } },
  };
}

function makeGrids(capture: Capture, pair: ComparedPair, ranking: Ranking, y: number,
  w: number): HeadGrid[] {
  const options = { capture, pair, ranking, x: PADDING, w };
  const changeGrid = headGrid({ ...options, kind: 'change', y });
  if (pair.left.heads.length > 1) return [changeGrid];
  return [changeGrid, headGrid({ ...options, kind: 'like', y: y + changeGrid.height + GAP })];
}

function summarize(
  pair: ComparedPair, difference: HeatmapPanel | undefined, ranking: Ranking, change: number | null,
): string {
  const { left } = pair;
  const first = ranking.changes[0];
  const isFirst = first && left.layer === first.layer && left.heads.length === 1
    && left.heads[0] === first.head;
  const all = `the ${ranking.changes.length} heads`;
  const rank = !first ? '' : ranking.exact && first.change === 0 ? `None of ${all} attends differently.`
    : isFirst ? `It changed most of ${all}.`
    : `Most of ${all} changed ${layerTitle(left.side, first.layer).toLowerCase()}, head ${
      headName(left.side.layers[first.layer], first.head)} (${
      ranking.exact ? '' : 'about '}${number(first.change, 2)}).`;
  const largest = difference ? describeLargest(pair, difference) : '';
  const head = largest ? `: ${largest}` : change === null ? '' : `, change ${number(change, 2)}`;
  return [`${describePair(pair)}${head}.`, rank].filter(Boolean).join(' ');
}

// "“play” attends 36 points more to “[CLS]” in the second text"
function describeLargest({ left, right }: ComparedPair, { values, rows, columns }: HeatmapPanel): string {
  const at = values.reduce((best, value, i) => (Math.abs(value) > Math.abs(values[best]) ? i : best), 0);
  const value = values[at];
  if (!value) return '';
  const [query, key] = [rows[Math.floor(at / columns.length)], columns[at % columns.length]];
  const size = Math.abs(value);
  const points = left.side.layers[left.layer].normalised && right.side.layers[right.layer].normalised ? `${number(100 * size, size < 0.1 ? 1 : 0)} points`
    : sensible(size);
  return `${quoted(query.text)} attends ${points} ${value > 0 ? 'more' : 'less'} to ${quoted(key.text)} in ${
    shortNames(left.side, right.side)[1]}`;
}

// The names of both sides without a beginning that they share, such as that of the model.
function shortNames(left: Side, right: Side): [string, string] {
  const [one, other] = [left.label.split(', '), right.label.split(', ')];
  if (one.length < 2 || other.length < 2 || one[0] !== other[0]) return [sideName(left), sideName(right)];
  return [one, other].map((parts) => isolate(inCell(`the ${parts.slice(1).join(', ')}`))) as [string, string];
}

const describePair = ({ left, right }: ComparedPair): string => {
  const [one, other] = [describeHeads(left), describeHeads(right)];
  const names = shortNames(left.side, right.side).join(' and ');
  return one === other ? `${capitalize(one)} of ${names}`
    : `${sideName(left.side)}, ${one}, and ${sideName(right.side)}, ${other}`;
};

// First the heads by change, then every weight that both sides have.
function table({ capture, choices }: Frame): Table {
  const ranked = rankHeads(capture, choices.side);
  const effectiveChoices = withDefaultHead(ranked, choices);
  const pair = makePair(capture, effectiveChoices);
  const { left, right } = pair;
  const heads = ranked.changes.map((each) => [
    'head', layerTitle(left.side, each.layer).toLowerCase(),
    `head ${headName(left.side.layers[each.layer], each.head)}`,
    patternLabel(left.side, each.layer, each.head),
    patternLabel(right.side, each.otherLayer, each.otherHead), each.change,
  ]);
  return {
    title: describePair(pair),
    header: ['what', 'layer or query', 'head or key', left.side.label, right.side.label,
      'change or difference'],
    rows: [...heads, ...weightRows(makeMaps(capture, effectiveChoices, pair))],
  };
}

function weightRows(maps: ComparedMaps): (string | number)[][] {
  const rows: (string | number)[][] = [];
  const { left, right, queries, keys } = maps;
  for (let i = 0; i < queries.left.length && rows.length < MAX_TABLE_ROWS; i++) {
    const [q, p] = [queries.left[i], queries.right[i]];
    for (let j = 0; j < keys.left.length; j++) {
      const [k, l] = [keys.left[j], keys.right[j]];
      rows.push(['weight', left.queries[q].text, left.keys[k].text,
        maps.leftValues[q * left.keys.length + k], maps.rightValues[p * right.keys.length + l],
        maps.difference[i * keys.left.length + j]]);
    }
  }
  return rows;
}

export const compare: View = {
  id: 'compare',
  key: 'c',
  title: 'Compare',
  description: 'One head of two models or two inputs side by side, their difference, and heads ranked by '
    + 'change.',
  missingReason,
  needs,
  draw,
  table,
  controls: ['side', 'layer', 'heads', 'scale', 'sinks', 'words', 'weighting', 'threshold', 'top'],
};
