// Two models, two inputs, or trained against untrained: the same head of both, their difference,
// and all heads ranked by how much they changed.

import type { Opened } from '../capture';
import type { Choices } from '../choices';
import { headName } from '../names';
import type { Item } from '../prepare';
import { number } from '../../shared/text';
import type { Table } from '../../shared/table';
import type { Drawing, Frame, Mark, Need, Target, View } from '../view';
import { ranking, rankingNeeds, type Ranking } from './change';
import { pairTarget } from './cells';
import { headGrid, type HeadGrid } from './headgrid';
import { weightsNeeded } from './heads';
import { sideName } from './naming';
import { halfName, labelOf, mapsOf, pairOf, type Maps, type Pair } from './pairing';
import { largestOf, panelHeight, panelMarks, poolingSaid, type Panel } from './panel';
import { box, layerTitle, paragraph, words } from './parts';
import { rankedList } from './ranked';
import {
  alignmentSaid, changeSaid, correspondenceSaid, pairChange, usualSaid,
} from './said';

const PAD = 12;
const GAP = 20;
const NARROW = 760; // below, the maps stand under one another
const TALLEST = 720; // pixels of a map
const LEAST = 420;
const ROWS = 250000; // of a table

function missing(opened: Opened): string | null {
  const [first, second] = opened.header.sides;
  if (second === undefined) {
    return 'Nothing to compare: this capture has one side. Look again with another model, the '
      + 'untrained one or another text (attnlab look --compare, --untrained, --compare-text).';
  }
  const empty = [first, second].find((side) => side.layers.length === 0);
  return empty ? `No layer of ${sideName(empty)} was captured.` : null;
}

function needs(opened: Opened, choices: Choices): Need[] {
  const { left, right } = pairOf(opened, choices);
  return [
    ...weightsNeeded(choices, left.layer),
    ...weightsNeeded({ ...choices, side: right.index }, right.layer),
    ...rankingNeeds(opened, choices.side, choices.order === 'change'),
  ];
}

function draw(frame: Frame): Drawing {
  const { opened, choices, width, measure } = frame;
  const ranked = ranking(opened, choices.side);
  const shown = withHead(ranked, choices);
  const pair = pairOf(opened, shown);
  const maps = mapsOf(opened, shown, pair);
  const change = pairChange(opened, pair);
  const inner = width - 2 * PAD;
  const sentences = [alignmentSaid(maps), correspondenceSaid(pair), changeSaid(change),
    shown === choices ? '' : usualSaid(ranked.exact)].filter(Boolean);
  const said = paragraph(sentences.join(' '), PAD, PAD, inner, 13, measure, { fill: 'ink' });
  const panels = panelsOf(frame, pair, maps, PAD + said.height + 10);
  const below = Math.max(...panels.map((panel) => panel.y + panelHeight(panel))) + GAP;
  const heads = headsOf(frame, pair, ranked, below);
  const notes = [changed(maps), poolingSaid(panels[0]), heads.note].filter(Boolean);
  return {
    width, height: heads.bottom + PAD,
    marks: [...said.marks, ...panels.flatMap(panelMarks), ...heads.marks],
    targets: heads.targets,
    at: (x, y) => pairTarget(panels, pair, maps, x, y),
    summary: summaryOf(pair, panels[2], ranked, change),
    note: notes.join(' ') || undefined,
  };
}

// Without a choice of heads, and without their mean: the one of the layer that changed most.
function withHead(ranked: Ranking, choices: Choices): Choices {
  if (choices.heads.length > 0 || choices.mean) return choices;
  const first = ranked.changes.find((each) => each.layer === choices.layer);
  return first ? { ...choices, heads: [first.head] } : choices;
}

const changed = ({ left }: Maps): string => (
  left.changed.length === 0 ? '' : `Shown: ${left.changed.join('; ')}.`);

// Both sides have one scale, so that equal colors are equal weights; the difference has its own.
function panelsOf(frame: Frame, pair: Pair, maps: Maps, y: number): Panel[] {
  const inner = frame.width - 2 * PAD;
  const beside = frame.width >= NARROW;
  const three = maps.difference.length > 0;
  const across = three ? 3 : 2;
  const free = beside ? Math.floor((inner - (across - 1) * GAP) / across) : inner;
  const w = Math.min(free, TALLEST);
  const signed = maps.left.signed || maps.right.signed;
  const panel = (title: string, rows: Item[], columns: Item[], values: Float32Array): Panel => (
    { title, x: PAD, y, w, h: Math.max(frame.height - y, LEAST), measure: frame.measure,
      rows, columns, values, most: 0, signed, scale: frame.choices.scale });
  const panels = ([[pair.left, maps.left, maps.leftValues],
    [pair.right, maps.right, maps.rightValues]] as const).map(([half, seen, values]) => (
    panel(`${sideName(half.side)}: ${halfName(half)}`, seen.queries, seen.keys, values)));
  if (three) {
    const rows = Array.from(maps.queries.left, (i) => maps.left.queries[i]);
    const columns = Array.from(maps.keys.left, (i) => maps.left.keys[i]);
    const title = 'Difference: the second map less the first';
    panels.push({ ...panel(title, rows, columns, maps.difference), signed: true });
  }
  const both = largestOf(panels[0], panels[1]);
  let [left, top] = [PAD, y];
  return panels.map((each, i) => {
    const here = { ...each, x: left, y: top, most: i < 2 ? both : largestOf(each) };
    if (beside) left += w + GAP;
    else top += panelHeight(here) + GAP;
    return here;
  });
}

interface Heads {
  marks: Mark[];
  targets: Drawing['targets'];
  bottom: number;
  note: string;
}

// Grids to choose from, and the heads that changed most as a list.
function headsOf(frame: Frame, pair: Pair, ranked: Ranking, y: number): Heads {
  const { width, measure } = frame;
  const inner = width - 2 * PAD;
  const how = paragraph(ranked.how, PAD, y + 22, inner, 12, measure);
  const button = ranked.exact ? null : exactButton(PAD, y + 22 + how.height + 8, measure);
  const top = y + 22 + how.height + 12 + (button ? button.h + 10 : 0);
  const beside = width >= NARROW;
  const gridWidth = beside ? Math.floor(inner * 0.42) : inner;
  const grids = gridsOf(frame.opened, pair, ranked, top, gridWidth);
  const last = grids[grids.length - 1];
  const list = rankedList({
    ranked, pair, measure, heads: pair.left.heads, layer: pair.left.layer,
    x: beside ? PAD + gridWidth + GAP : PAD, y: beside ? top : last.y + last.height + GAP,
    w: beside ? inner - gridWidth - GAP : inner,
  });
  return {
    marks: [words(PAD, y + 14, 'Heads ranked by change', 14, { bold: true }), ...how.marks,
      ...(button ? button.marks : []),
      ...grids.flatMap((grid) => grid.marks), ...list.marks],
    targets: [...list.targets, ...(button ? [button.target] : []),
      ...grids.flatMap((grid) => grid.targets)],
    bottom: Math.max(last.y + last.height, list.y + list.height),
    note: list.note,
  };
}

const RANK = 'Open all weights and rank exactly';

function exactButton(x: number, y: number, measure: Frame['measure']): {
  marks: Mark[]; target: Target; h: number;
} {
  const [w, h] = [measure(RANK, 12) + 20, 24];
  return {
    h, marks: [box(x, y, w, h, { fill: 'card', stroke: 'dim', radius: 4 }),
      words(x + 10, y + 16, RANK, 12, { limit: w - 12 })],
    target: { x, y, w, h, label: RANK, key: 'compare/exact', pick: { order: 'change' } },
  };
}

function gridsOf(opened: Opened, pair: Pair, ranked: Ranking, y: number, w: number): HeadGrid[] {
  const asked = { opened, pair, ranked, x: PAD, w };
  const mine = headGrid({ ...asked, kind: 'change', y });
  if (pair.left.heads.length > 1) return [mine];
  return [mine, headGrid({ ...asked, kind: 'like', y: y + mine.height + GAP })];
}

function summaryOf(
  pair: Pair, difference: Panel | undefined, ranked: Ranking, change: number | null,
): string {
  const { left } = pair;
  const first = ranked.changes[0];
  const most = first ? `Of ${ranked.changes.length} heads ${
    layerTitle(left.side, first.layer).toLowerCase()}, head ${
    headName(left.side.layers[first.layer], first.head)} changed most (${
    ranked.exact ? '' : 'about '}${number(first.change, 3)}).` : '';
  const largest = difference ? `, largest difference ${number(difference.most, 3)}` : '';
  const head = change === null ? '' : `, change ${number(change, 3)}`;
  return [`${bothName(pair)}${head}${largest}.`, most].filter(Boolean).join(' ');
}

const bothName = ({ left, right }: Pair): string => (
  `${sideName(left.side)}, ${halfName(left)}, beside ${sideName(right.side)}, ${halfName(right)}`);

// Heads by change first, then every weight that both sides have.
function table({ opened, choices }: Frame): Table {
  const ranked = ranking(opened, choices.side);
  const shown = withHead(ranked, choices);
  const pair = pairOf(opened, shown);
  const { left, right } = pair;
  const heads = ranked.changes.map((each) => [
    'head', layerTitle(left.side, each.layer).toLowerCase(),
    `head ${headName(left.side.layers[each.layer], each.head)}`,
    labelOf(left.side, each.layer, each.head),
    labelOf(right.side, each.otherLayer, each.otherHead), each.change,
  ]);
  return {
    title: bothName(pair),
    header: ['what', 'layer or query', 'head or key', left.side.label, right.side.label,
      'change or difference'],
    rows: [...heads, ...weightRows(mapsOf(opened, shown, pair))],
  };
}

function weightRows(maps: Maps): (string | number)[][] {
  const rows: (string | number)[][] = [];
  const { left, right, queries, keys } = maps;
  for (let i = 0; i < queries.left.length && rows.length < ROWS; i++) {
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
  about: 'One head of two models or two inputs side by side, their difference, and heads ranked by '
    + 'change.',
  missing,
  needs,
  draw,
  table,
  controls: ['side', 'layer', 'heads', 'scale', 'sinks', 'words', 'weighting', 'threshold', 'top'],
};
