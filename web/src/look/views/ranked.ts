// Heads by change: a bar and a number for each, and what both sides call them.

import { headName, layerName } from '../names';
import { number } from '../../shared/text';
import type { Frame, Mark, Target } from '../view';
import type { Change, Ranking } from './change';
import { sideName } from './naming';
import { labelOf, type Pair } from './pairing';
import { box, line, words } from './parts';

export interface RankedList {
  y: number;
  height: number;
  marks: Mark[];
  targets: Target[];
  note: string;
}

interface Asked {
  ranked: Ranking;
  pair: Pair;
  x: number;
  y: number;
  w: number;
  measure: Frame['measure'];
  layer: number;
  heads: number[]; // that are shown now
}

const LISTED = 24;
const ROW = 24;
const HEAD = 24;
const NUMBER = 48; // room for a number

export function rankedList(asked: Asked): RankedList {
  const { ranked, pair, x, y, w } = asked;
  const shown = ranked.changes.slice(0, LISTED);
  const names = shown.map((each) => nameOf(pair, each));
  const columns = columnsOf(asked, names);
  const marks: Mark[] = [
    words(x, y + 12, 'layer, head', 11, { fill: 'dim' }),
    words(columns.bars, y + 12, 'change', 11, { fill: 'dim' }),
    words(columns.labels, y + 12, 'pattern', 11, { fill: 'dim' }),
    line(x, y + HEAD - 6, x + w, y + HEAD - 6, 'rule'),
  ];
  const targets: Target[] = [];
  shown.forEach((each, i) => {
    const top = y + HEAD + i * ROW;
    marks.push(...rowMarks(asked, each, names[i], columns, top));
    const place = { x: x - 4, y: top - 2, w: w + 4, h: ROW - 2 };
    targets.push({ ...place, ...targetOf(pair, each, names[i], i) });
  });
  const all = ranked.changes.length;
  return {
    y, height: HEAD + shown.length * ROW, marks, targets,
    note: all > shown.length
      ? `The ${shown.length} heads that changed most are listed; the table has all ${all}.` : '',
  };
}

interface Columns {
  bars: number;
  barWidth: number;
  labels: number;
}

function columnsOf({ x, w, measure }: Asked, names: string[]): Columns {
  const widest = Math.max(64, ...names.map((name) => measure(name, 12) * 1.08)) + 12;
  const bars = x + Math.min(w * 0.4, widest);
  const barWidth = Math.min(150, w * 0.22);
  return { bars, barWidth, labels: bars + barWidth + NUMBER };
}

function rowMarks(
  { x, w, pair, layer, heads, ranked }: Asked, each: Change, name: string, columns: Columns,
  top: number,
): Mark[] {
  const here = each.layer === layer && heads.length === 1 && heads[0] === each.head;
  const [left, right] = labelsOf(pair, each);
  const { bars, barWidth, labels } = columns;
  const most = Math.max(1e-9, ranked.changes[0].change);
  const look = { fill: 'card', stroke: 'accent', radius: 3 };
  return [
    ...(here ? [box(x - 4, top - 2, w + 4, ROW - 2, look)] : []),
    words(x, top + 14, name, 12, { bold: here, limit: bars - x - 6 }),
    box(bars, top + 4, barWidth, 12, { fill: here ? 'page' : 'card' }),
    box(bars, top + 4, Math.max(1, (barWidth * each.change) / most), 12, { fill: 's0' }),
    words(bars + barWidth + 6, top + 14, number(each.change, 3), 12),
    words(labels, top + 14, left === right ? left : `${left} → ${right}`, 12,
      { fill: 'dim', limit: Math.max(10, x + w - labels) }),
  ];
}

function nameOf({ left, right, corresponding }: Pair, each: Change): string {
  const one = `${layerName(left.side, each.layer)}, ${
    headName(left.side.layers[each.layer], each.head)}`;
  if (corresponding) return one;
  return `${one} | ${layerName(right.side, each.otherLayer)}, ${
    headName(right.side.layers[each.otherLayer], each.otherHead)}`;
}

const labelsOf = ({ left, right }: Pair, each: Change): [string, string] => [
  labelOf(left.side, each.layer, each.head),
  labelOf(right.side, each.otherLayer, each.otherHead),
];

function targetOf(
  pair: Pair, each: Change, name: string, rank: number,
): Omit<Target, 'x' | 'y' | 'w' | 'h'> {
  const [left, right] = labelsOf(pair, each);
  const change = `change ${number(each.change, 3)}`;
  return {
    label: `Rank ${rank + 1}, layer and head ${name}: ${change}, ${left} and ${right}`,
    key: `compare/list/${each.layer}/${each.head}`,
    pick: { layer: each.layer, heads: [each.head], mean: false, against: null },
    tip: () => [`Layer and head ${name}`, change, `${sideName(pair.left.side)}: ${left}`,
      `${sideName(pair.right.side)}: ${right}`],
  };
}
