// The neurons of all keys at once: each key's vector and its product with the query, element by
// element, as rows of colored cells; beside them the score and the weight.

import { number, quoted, sensible } from '../../shared/readable-text';
import { maxAbs } from '../prepare-weights';
import type { Drawing, Frame, Mark, Target } from '../view';
import {
  keysByImportance, labelMarks, MAX_HEIGHT, MAX_READABLE_ROWS, READABLE_PIXELS, ROW_HEIGHT,
  selectionFrame, type Column, type RowLayout,
} from './key-bars';
import { groupRows, rowOf } from './attention-scores';
import { lineMark, paragraph, rectMark, textMark } from './marks';
import { readPair, type QueryKeyPair } from './neurons-data';
import type { Capture } from '../capture';

const PADDING = 12;
const FONT = 11;
const NARROW_PIXELS = 620;
const STRIP = 16; // height of the query above the keys
const HEAD = 62; // height of the headings and the query

interface KeyMatrix {
  pair: QueryKeyPair;
  size: number; // elements of a key
  keys: Float32Array; // (S, D)
  products: Float32Array | null; // (S, D)
}

function readMatrix(capture: Capture, frame: Frame): KeyMatrix | null {
  const pair = readPair(capture, frame.choices);
  const keys = groupRows(capture, pair.layer, pair.layer.k, pair.scores.head);
  if (!keys) return null;
  const size = keys.length / pair.keys.length;
  const { q } = pair.scores;
  const products = q && q.length === size ? keys.map((x, i) => x * q[i % size]) : null;
  return { pair, size, keys, products };
}

interface Layout extends RowLayout {
  vectors: Column;
  products: Column;
}

function layOut(matrix: KeyMatrix, frame: Frame, top: number): Layout {
  const { pair } = matrix;
  const count = Math.max(pair.queries.length, pair.keys.length);
  const rowHeight = count <= MAX_READABLE_ROWS ? ROW_HEIGHT
    : Math.max(2, Math.min(ROW_HEIGHT, MAX_HEIGHT / count));
  const width = Math.min(frame.width - 2 * PADDING, 1700);
  const narrow = width < NARROW_PIXELS;
  const label = narrow ? 56 : 120;
  const gap = narrow ? 8 : 16;
  const left = PADDING + 2 * label + 2 * gap;
  const numbers = narrow ? 42 : 170;
  const cells = (PADDING + width - numbers - gap - left) / (matrix.products ? 2 : 1) - gap / 2;
  return {
    top, rowHeight, query: [PADDING, label], token: [PADDING + label + gap, label],
    vectors: [left, cells], products: [left + cells + gap, cells],
    score: [0, 0], weight: [PADDING + width - numbers, numbers],
  };
}

// Null if the layer has no keys.
export function drawAllKeys(frame: Frame): Drawing | null {
  const matrix = readMatrix(frame.capture, frame);
  if (!matrix) return null;
  const { pair, keys, products, size } = matrix;
  const { scores } = pair;
  const query = quoted(pair.queries[pair.query].text);
  const title = paragraph(`${pair.title}: ${query} meets all keys`, PADDING, PADDING,
    frame.width - 2 * PADDING, 14, frame.measure, { bold: true });
  const rows = layOut(matrix, frame, PADDING + title.height + HEAD);
  const marks: Mark[] = [
    ...title.marks, ...headings(matrix, rows),
    selectionFrame(rows, rows.query[0], rows.query[1], scores.query),
    selectionFrame(rows, rows.token[0], rows.weight[0] + rows.weight[1] - rows.token[0], pair.key),
    ...labelMarks(pair.queries, rows.query, rows, [scores.query, ...pair.queries.keys()]),
    ...labelMarks(pair.keys, rows.token, rows, keysByImportance(scores, pair.key)),
    cellMark(keys, size, rows, rows.vectors),
    ...(products ? [cellMark(products, size, rows, rows.products)] : []),
    ...weightMarks(pair, rows),
  ];
  return {
    width: frame.width, marks,
    height: rows.top + Math.max(pair.queries.length, pair.keys.length) * rows.rowHeight + PADDING,
    targets: targets(matrix, rows),
    targetAt: (x, y) => cellTarget(matrix, rows, x, y),
    summary: summarize(matrix),
    note: 'Blue is above 0, orange below; click a query or a key to choose another.',
  };
}

function summarize({ pair, products, size }: KeyMatrix): string {
  const { captured } = pair.scores;
  const best = captured.reduce((most, x, i) => (x > captured[most] ? i : most), 0);
  const to = quoted(pair.keys[best].text);
  const start = `${pair.title}: ${quoted(pair.queries[pair.query].text)} attends most to ${to}, ${sensible(captured[best])}`;
  if (!products) return `${start}.`;
  const row = rowOf(products, best, size);
  const element = row.reduce((most, x, i) => (x > row[most] ? i : most), 0);
  return `${start}; element ${element} adds most to their product, ${number(row[element], 2)}.`;
}

function headings({ pair, products }: KeyMatrix, rows: Layout): Mark[] {
  const y = rows.top - STRIP - 8;
  const heading = (text: string, [x, w]: Column, at = y - 6): Mark => (
    textMark(x, at, text, FONT, { fill: 'dim', limit: w }));
  const { q } = pair.scores;
  const narrow = rows.vectors[1] < 160;
  const marks = [
    heading('query', rows.query, rows.top - 7), heading('key', rows.token, rows.top - 7),
    heading(narrow ? 'q; k below' : 'q above, k of each key below', rows.vectors),
    heading('weight', rows.weight, rows.top - 7),
  ];
  if (products) marks.push(heading(narrow ? 'q × k' : 'q × k, element by element', rows.products));
  if (q) marks.push(stripMark(q, rows.vectors, y));
  if (q && products) marks.push(stripMark(q, rows.products, y));
  return marks;
}

const stripMark = (values: Float32Array, [x, w]: Column, y: number): Mark => ({
  kind: 'raster', x, y, w, h: STRIP, rows: 1, columns: values.length, values: scaled(values),
  signed: true, noSigns: true,
});

function cellMark(values: Float32Array, size: number, rows: Layout, [x, w]: Column): Mark {
  const count = values.length / size;
  return {
    kind: 'raster', x, y: rows.top, w, h: count * rows.rowHeight, rows: count, columns: size,
    values: scaled(values), signed: true, noSigns: true,
  };
}

function scaled(values: Float32Array): Float32Array {
  const largest = maxAbs(values);
  return largest > 0 ? values.map((x) => x / largest) : values;
}

function weightMarks({ scores }: QueryKeyPair, { top, rowHeight, weight: [x, w] }: Layout): Mark[] {
  const { captured, allowed } = scores;
  const readable = rowHeight >= READABLE_PIXELS;
  const bars = readable ? Math.max(0, w - 46) : w;
  const largest = maxAbs(captured) || 1;
  const marks: Mark[] = [];
  captured.forEach((weight, i) => {
    const y = top + i * rowHeight;
    const margin = readable ? 4 : 0;
    if (bars > 0)
      marks.push(rectMark(x, y + margin, (Math.abs(weight) / largest) * bars,
        Math.max(1, rowHeight - 2 * margin), { fill: weight < 0 ? 's1' : 's0' }));
    if (readable)
      marks.push(textMark(x + w, y + rowHeight / 2 + 4, allowed[i] ? compact(weight) : 'masked', FONT,
        { mono: true, anchor: 'end', fill: allowed[i] ? 'ink' : 'dim', limit: 46 }));
  });
  return [...marks, lineMark(x, top, x, top + captured.length * rowHeight, 'dim')];
}

const compact = (value: number): string =>
  value !== 0 && Math.abs(value) < 0.0005 ? '≈0' : number(value, 3);

function rowTip({ pair }: KeyMatrix, key: number): string[] {
  const { dots, scores, captured, allowed } = pair.scores;
  const lines = [`${quoted(pair.queries[pair.query].text)} to key ${key} ${quoted(pair.keys[key].text)}`];
  if (dots) lines.push(`q · k ${number(dots[key], 5)}`);
  if (scores) lines.push(`score ${number(scores[key], 5)}`);
  return [...lines, allowed[key] ? `weight ${sensible(captured[key])}` : 'masked'];
}

function targets(matrix: KeyMatrix, rows: Layout): Target[] {
  const { pair } = matrix;
  const { top, rowHeight } = rows;
  const row = (column: Column, i: number) => (
    { x: column[0] - 3, y: top + i * rowHeight, w: column[1] + 6, h: rowHeight });
  return [
    ...pair.queries.map(({ text }, i): Target => ({
      ...row(rows.query, i), label: `Query ${i} ${quoted(text)}`, key: `neurons/query/${i}`,
      pick: { queries: [i] },
    })),
    ...pair.keys.map(({ text }, i): Target => ({
      ...row(rows.token, i), label: `Key ${i} ${quoted(text)}`, key: `neurons/key/${i}`,
      pick: { key: i, vectors: 'pair' }, tooltip: () => rowTip(matrix, i),
    })),
    ...pair.keys.map((_, i): Target => ({
      ...row(rows.weight, i), label: rowTip(matrix, i).join(', '), key: `neurons/weight/${i}`,
      tooltip: () => rowTip(matrix, i),
    })),
  ];
}

// One element of one key.
function cellTarget(matrix: KeyMatrix, rows: Layout, x: number, y: number): Target | null {
  const { pair, size, keys, products } = matrix;
  const key = Math.floor((y - rows.top) / rows.rowHeight);
  if (key < 0 || key >= pair.keys.length) return null;
  for (const [left, w] of products ? [rows.vectors, rows.products] : [rows.vectors]) {
    if (x < left || x >= left + w) continue;
    const element = Math.min(size - 1, Math.floor(((x - left) / w) * size));
    const at = key * size + element;
    const { q } = pair.scores;
    const lines = [
      `element ${element} of key ${key} ${quoted(pair.keys[key].text)}`,
      ...(q ? [`q: ${number(q[element], 4)}`] : []), `k: ${number(keys[at], 4)}`,
      ...(products ? [`q × k: ${number(products[at], 4)}`] : []),
    ];
    const step = w / size;
    return {
      x: left + element * step, y: rows.top + key * rows.rowHeight, w: step, h: rows.rowHeight,
      label: lines.join(', '), key: `neurons/cell/${key}/${element}/${left}`,
      tooltip: () => lines, pick: { key, vectors: 'pair' },
      overlay: () => [rows.vectors, ...(products ? [rows.products] : [])].map(([start]) => (
        rectMark(start + element * step - 1, rows.top - STRIP - 8, step + 2,
          STRIP + 8 + pair.keys.length * rows.rowHeight, { stroke: 'accent' }))),
    };
  }
  return null;
}
