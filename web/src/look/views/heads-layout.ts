// Where the two columns of tokens stand, and what is shown in them.

import { prepare, type Item, type Seen } from '../prepare';
import { short } from '../../shared/text';
import type { Frame } from '../view';
import { shownHeads, type Shown } from './lines';

export const PAD = 12;
export const TOP = 24; // the title
export const SWATCH = 18;
export const SPACE = 44; // for one head in the legend
const WIDEST = 1040;
const ROW = { least: 13, most: 26 };
const STRIP = 96; // pixels for what each head gives to a token
const BOLD = 1.1; // how much wider a chosen token is
const HEAD = 22; // names of the columns

export interface Column {
  items: Item[];
  x: number; // where lines end
  strip: number; // where the strip begins
  label: number; // where labels begin, or end
  width: number; // of labels
  side: 'left' | 'right';
}

export interface Plan {
  seen: Seen;
  shown: Shown[];
  columns: Column[];
  top: number;
  row: number;
  size: number;
  cell: number; // width of a strip's cell
  left: number;
  width: number;
}

export function plan(frame: Frame, layer: number): Plan {
  const seen = prepare(frame.opened, frame.choices, frame.choices.side, layer);
  const shown = shownHeads(seen, frame.choices);
  const width = Math.min(frame.width, WIDEST) - 2 * PAD;
  const left = Math.max(PAD, Math.floor((frame.width - width) / 2));
  const top = TOP + legendHeight(shown, width) + HEAD;
  const rows = Math.max(seen.queries.length, seen.keys.length);
  const free = (frame.height - top - PAD) / rows;
  const row = Math.max(ROW.least, Math.min(ROW.most, Math.floor(free)));
  const size = Math.min(14, row - 2);
  const strip = Math.min(STRIP, width * 0.12);
  const cell = Math.max(2, Math.min(8, Math.floor(strip / shown.length)));
  const taken = shown.length > strip / 2 ? 0 : cell * shown.length + 6;
  const most = Math.max(48, Math.min(220, (width - 2 * taken) * 0.32));
  const columns = (['left', 'right'] as const).map((side): Column => {
    const items = side === 'left' ? seen.queries : seen.keys;
    const wide = Math.ceil(Math.min(most, widest(items, size, frame.measure)));
    const edge = side === 'left' ? left + taken + wide : left + width - taken - wide;
    return {
      items,
      side,
      width: wide,
      label: edge,
      strip: side === 'left' ? left : edge + wide + 6,
      x: edge + (side === 'left' ? 4 : -4),
    };
  });
  return { seen, shown, columns, top, row, size, cell: taken ? cell : 0, left, width };
}

function widest(items: Item[], size: number, measure: Frame['measure']): number {
  let most = 40;
  for (const item of items) most = Math.max(most, measure(short(item.text), size) * BOLD + 10);
  return most;
}

export function legendHeight(shown: Shown[], width: number): number {
  const each = Math.max(1, Math.floor(width / SPACE));
  return shown.length === 1 && shown[0].head < 0 ? 0 : Math.ceil(shown.length / each) * SWATCH + 4;
}
