// Layout of the heads view: two columns of tokens, with strips and labels.

import { prepareWeights, type Item, type PreparedWeights } from '../prepare-weights';
import { short } from '../../shared/readable-text';
import type { Frame } from '../view';
import { displayedHeads, type DisplayedHead } from './strongest-lines';

export const PADDING = 12;
export const TITLE_HEIGHT = 24; // height of the title
export const SWATCH_HEIGHT = 18;
export const SWATCH_WIDTH = 44; // width of one head in the legend
const MAX_WIDTH = 1040;
const WIDE = 900; // from here on, high rows have larger text
const ROW_HEIGHT = { min: 13, max: 34 };
const STRIP_WIDTH = 96; // width of the strip with the weights of each head, in pixels
const BOLD_FACTOR = 1.1; // how much wider bold text is
const COLUMN_NAMES_HEIGHT = 22; // height of the column names
const NUMBER_WIDTH = 38; // width of a weight beside a token
const SIGN_WIDTH = 10;
const MIN_NUMBER_ROW = 13; // rows that are lower have no room for a number

export interface Column {
  items: Item[];
  x: number; // end of the lines
  strip: number; // left edge of the strip
  label: number; // inner edge of the labels
  width: number; // of labels
  side: 'left' | 'right';
}

export interface HeadsLayout {
  prepared: PreparedWeights;
  displayed: DisplayedHead[];
  columns: Column[];
  top: number;
  rowHeight: number;
  fontSize: number;
  cellWidth: number; // width of a strip's cell
  numberWidth: number; // space for a weight beside each token; 0 if there is none
  left: number;
  width: number;
}

export function layOutHeads(frame: Frame, layer: number): HeadsLayout {
  const prepared = prepareWeights(frame.capture, frame.choices, frame.choices.side, layer);
  const displayed = displayedHeads(prepared, frame.choices);
  const width = Math.min(frame.width, MAX_WIDTH) - 2 * PADDING;
  const left = Math.max(PADDING, Math.floor((frame.width - width) / 2));
  const top = TITLE_HEIGHT + legendHeight(displayed, width) + COLUMN_NAMES_HEIGHT;
  const rows = Math.max(prepared.queries.length, prepared.keys.length);
  const freeHeight = (frame.height - top - PADDING) / rows;
  const rowHeight = Math.max(ROW_HEIGHT.min, Math.min(ROW_HEIGHT.max, Math.floor(freeHeight)));
  const fontSize = Math.min(14, rowHeight - 2) + Math.max(0, Math.floor((Math.min(frame.width, MAX_WIDTH) >= WIDE ? rowHeight - 26 : 0) / 2));
  const strip = Math.min(STRIP_WIDTH, width * 0.12);
  const cell = Math.max(2, Math.min(8, Math.floor(strip / displayed.length)));
  const cellWidth = displayed.length > strip / 2 ? 0 : cell;
  const numberWidth = rowHeight >= MIN_NUMBER_ROW ? NUMBER_WIDTH + (prepared.signed ? SIGN_WIDTH : 0) : 0;
  const stripSpace = (cellWidth ? cell * displayed.length + 6 : 0) + numberWidth;
  const maxLabelWidth = Math.max(48, Math.min(220, (width - 2 * stripSpace) * 0.32));
  const columns = (['left', 'right'] as const).map((side): Column => {
    const items = side === 'left' ? prepared.queries : prepared.keys;
    const labelWidth = Math.ceil(
      Math.min(maxLabelWidth, widestLabel(items, fontSize, frame.measure)),
    );
    const edge =
      side === 'left' ? left + stripSpace + labelWidth : left + width - stripSpace - labelWidth;
    return {
      items,
      side,
      width: labelWidth,
      label: edge,
      strip: side === 'left' ? left + numberWidth : edge + labelWidth + 6,
      x: edge + (side === 'left' ? 4 : -4),
    };
  });
  return {
    prepared,
    displayed,
    columns,
    top,
    rowHeight,
    fontSize,
    cellWidth,
    numberWidth,
    left,
    width,
  };
}

function widestLabel(items: Item[], fontSize: number, measure: Frame['measure']): number {
  let widest = 40;
  for (const item of items)
    widest = Math.max(widest, measure(short(item.text), fontSize) * BOLD_FACTOR + 10);
  return widest;
}

export function legendHeight(displayed: DisplayedHead[], width: number): number {
  const perRow = Math.max(1, Math.floor(width / SWATCH_WIDTH));
  return displayed.length === 1 && displayed[0].head < 0
    ? 0
    : Math.ceil(displayed.length / perRow) * SWATCH_HEIGHT + 4;
}
