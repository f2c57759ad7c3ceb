// The list of heads ranked by change: a bar, a number, and the patterns on both sides.

import { headName, layerName, sideName } from '../names';
import { number } from '../../shared/readable-text';
import type { Frame, Mark, Target } from '../view';
import type { HeadChange, Ranking } from './head-change';
import { patternLabel, type ComparedPair } from './compare-data';
import { rectMark, lineMark, textMark } from './marks';

export interface RankedList {
  y: number;
  height: number;
  marks: Mark[];
  targets: Target[];
  note: string;
}

interface RankedListOptions {
  ranking: Ranking;
  pair: ComparedPair;
  x: number;
  y: number;
  w: number;
  measure: Frame['measure'];
  layer: number;
  heads: number[]; // displayed now
}

const MAX_LISTED = 24;
const ROW_HEIGHT = 24;
const HEADER_HEIGHT = 24;
const NUMBER_WIDTH = 48; // pixels for a number

export function rankedList(options: RankedListOptions): RankedList {
  const { ranking, pair, x, y, w } = options;
  const listed = ranking.changes.slice(0, MAX_LISTED);
  const names = listed.map((each) => pairName(pair, each));
  const columns = layOutColumns(options, names);
  const marks: Mark[] = [
    textMark(x, y + 12, 'layer, head', 11, { fill: 'dim' }),
    textMark(columns.bars, y + 12, 'change', 11, { fill: 'dim' }),
    textMark(columns.labels, y + 12, 'pattern', 11, { fill: 'dim' }),
    lineMark(x, y + HEADER_HEIGHT - 6, x + w, y + HEADER_HEIGHT - 6, 'rule'),
  ];
  const targets: Target[] = [];
  listed.forEach((change, i) => {
    const top = y + HEADER_HEIGHT + i * ROW_HEIGHT;
    marks.push(...rowMarks(options, change, names[i], columns, top));
    const rect = { x: x - 4, y: top - 2, w: w + 4, h: ROW_HEIGHT - 2 };
    targets.push({ ...rect, ...rankTarget(pair, change, names[i], i) });
  });
  const total = ranking.changes.length;
  return {
    y, height: HEADER_HEIGHT + listed.length * ROW_HEIGHT, marks, targets,
    note: total > listed.length
      ? `The ${listed.length} heads that changed most are listed; the table has all ${total}.` : '',
  };
}

interface Columns {
  bars: number;
  barWidth: number;
  labels: number;
}

function layOutColumns({ x, w, measure }: RankedListOptions, names: string[]): Columns {
  const nameWidth = Math.max(64, ...names.map((name) => measure(name, 12) * 1.08)) + 12;
  const bars = x + Math.min(w * 0.4, nameWidth);
  const barWidth = Math.min(150, w * 0.22);
  return { bars, barWidth, labels: bars + barWidth + NUMBER_WIDTH };
}

function rowMarks(
  { x, w, pair, layer, heads, ranking }: RankedListOptions, change: HeadChange, name: string,
    columns: Columns,
  top: number,
): Mark[] {
  const isDisplayed = change.layer === layer && heads.length === 1 && heads[0] === change.head;
  const [left, right] = patternLabels(pair, change);
  const { bars, barWidth, labels } = columns;
  const largest = Math.max(1e-9, ranking.changes[0].change);
  const style = { fill: 'card', stroke: 'accent', radius: 3 };
  return [
    ...(isDisplayed ? [rectMark(x - 4, top - 2, w + 4, ROW_HEIGHT - 2, style)] : []),
    textMark(x, top + 14, name, 12, { bold: isDisplayed, limit: bars - x - 6 }),
    rectMark(bars, top + 4, barWidth, 12, { fill: isDisplayed ? 'page' : 'card' }),
    rectMark(bars, top + 4, Math.max(1, (barWidth * change.change) / largest), 12, { fill: 's0' }),
    textMark(bars + barWidth + 6, top + 14, number(change.change, 3), 12),
    textMark(labels, top + 14, left === right ? left : `${left} → ${right}`, 12,
      { fill: 'dim', limit: Math.max(10, x + w - labels) }),
  ];
}

function pairName({ left, right, sameShape }: ComparedPair, change: HeadChange): string {
  const leftName = `${layerName(left.side, change.layer)}, ${
    headName(left.side.layers[change.layer], change.head)}`;
  if (sameShape) return leftName;
  return `${leftName} | ${layerName(right.side, change.otherLayer)}, ${
    headName(right.side.layers[change.otherLayer], change.otherHead)}`;
}

const patternLabels = ({ left, right }: ComparedPair, change: HeadChange): [string, string] => [
  patternLabel(left.side, change.layer, change.head),
  patternLabel(right.side, change.otherLayer, change.otherHead),
];

function rankTarget(
  pair: ComparedPair, headChange: HeadChange, name: string, rank: number,
): Omit<Target, 'x' | 'y' | 'w' | 'h'> {
  const [left, right] = patternLabels(pair, headChange);
  const change = `change ${number(headChange.change, 3)}`;
  return {
    label: `Rank ${rank + 1}, layer and head ${name}: ${change}, ${left} and ${right}`,
    key: `compare/list/${headChange.layer}/${headChange.head}`,
    pick: { layer: headChange.layer, heads: [headChange.head], mean: false, against: null },
    tooltip: () => [`Layer and head ${name}`, change, `${sideName(pair.left.side)}: ${left}`,
      `${sideName(pair.right.side)}: ${right}`],
  };
}
