// A heatmap of one head, or of the mean of several.

import type { Choices } from '../choices';
import { layerTitle } from '../names';
import { largest, places, prepare, shades, type Item, type Seen } from '../prepare';
import { count, found, number, quoted, rounded, short, whole } from '../text';
import type { Drawing, Frame, Mark, Need, Table, Target, View } from '../view';
import { missingLayers, weightsNeeded } from './heads';
import { meanHead, type Shown } from './lines';

const PAD = 12;
const TITLE = 26;
const LEGEND = 34;
const LARGEST = 44; // pixels of a cell
const LABEL = 12; // pixels that a label needs
const ROWS = 250000; // of a table

type Window = [number, number, number, number]; // first and last query, first and last key

interface Plan {
  seen: Seen;
  shown: Shown;
  most: number; // the largest size
  full: number; // what has the full colour
  window: Window;
  x: number;
  y: number;
  cell: number;
  rows: number;
  columns: number;
}

// The zoom, as far as it lies within what is there (words are fewer than tokens).
function windowOf(seen: Seen, zoom: Choices['zoom']): Window {
  const [bottom, right] = [seen.queries.length - 1, seen.keys.length - 1];
  return zoom && zoom[1] <= bottom && zoom[3] <= right ? zoom : [0, bottom, 0, right];
}

function plan(frame: Frame): Plan {
  const { choices, width, height, measure } = frame;
  const seen = prepare(frame.opened, choices);
  const shown = meanHead(seen);
  const window = windowOf(seen, choices.zoom);
  const [rows, columns] = [window[1] - window[0] + 1, window[3] - window[2] + 1];
  const gutter = (items: Item[], most: number): number => {
    let wide = 24;
    for (const item of items) wide = Math.max(wide, measure(short(item.text), 12) + 14);
    return Math.ceil(Math.min(most, wide));
  };
  const x = PAD + gutter(seen.queries.slice(window[0], window[1] + 1), Math.min(150, width * 0.25));
  const y = TITLE + gutter(seen.keys.slice(window[2], window[3] + 1), Math.min(110, height * 0.22));
  const free = [(width - x - PAD) / columns, (Math.max(height, 260) - y - LEGEND - PAD) / rows];
  const cell = Math.min(LARGEST, Math.max(Math.min(...free), 120 / Math.max(rows, columns)));
  const most = largest(shown.values);
  return { seen, shown, most, full: fullColour(shown.values, most), window, x, y, cell, rows, columns };
}

const BINS = 1000;
const FEW = 0.005; // of the cells that are not 0

// A first token looks at itself alone, with weight 1: a few such cells would leave all others pale.
function fullColour(values: Float32Array, most: number): number {
  if (!(most > 0)) return 0;
  const counts = new Uint32Array(BINS + 1);
  let all = 0;
  for (let i = 0; i < values.length; i += 1) {
    const size = Math.abs(values[i]);
    if (!(size > 0)) continue;
    counts[Math.floor((size / most) * BINS)] += 1;
    all += 1;
  }
  let [bin, above] = [BINS, 0];
  while (bin > 0 && above + counts[bin] <= all * FEW) above += counts[bin--];
  return (most * Math.min(BINS, bin + 1)) / BINS;
}

function draw(frame: Frame): Drawing {
  const { choices } = frame;
  const it = plan(frame);
  const { seen, x, y, cell, rows, columns, window } = it;
  const [w, h] = [cell * columns, cell * rows];
  const marks: Mark[] = [
    ...title(it, frame),
    { kind: 'raster', x, y, w, h, rows, columns, values: colours(it, choices.scale), signed: seen.signed },
    { kind: 'rect', x: x - 0.5, y: y - 0.5, w: w + 1, h: h + 1, stroke: 'rule' },
    ...labels(it, frame), ...chosen(it, choices), ...legend(it, frame, y + h + 12, Math.min(w, 240)),
  ];
  return {
    width: frame.width, height: Math.max(y + h + LEGEND + PAD, 120), marks,
    targets: rowTargets(it, choices),
    at: (px, py) => {
      const [q, k] = [Math.floor((py - y) / cell), Math.floor((px - x) / cell)];
      return q < 0 || k < 0 || q >= rows || k >= columns ? null : cellTarget(it, frame, window[0] + q, window[2] + k);
    },
    find: (key) => {
      const [, q, k] = (/^cell (\d+) (\d+)$/.exec(key) ?? []).map(Number);
      return q >= window[0] && q <= window[1] && k >= window[2] && k <= window[3] ? cellTarget(it, frame, q, k) : null;
    },
    zoom: { x, y, w, h, window, rows: seen.queries.length, columns: seen.keys.length },
    summary: summary(it, frame),
    note: thinned(it),
  };
}

function title({ seen, shown }: Plan, frame: Frame): Mark[] {
  const side = frame.opened.header.sides[frame.choices.side];
  const text = [`${layerTitle(side, frame.choices.layer)}, ${shown.name}`, ...seen.changed].join(' · ');
  return [{ kind: 'text', x: PAD, y: 16, size: 13, bold: true, text, limit: frame.width - 2 * PAD }];
}

// Kept, so that the painter knows what it has painted before.
const coloured = new WeakMap<Float32Array, Map<string, Float32Array>>();

function colours({ seen, shown, full, window, rows, columns }: Plan, scale: Choices['scale']): Float32Array {
  let known = coloured.get(shown.values);
  if (!known) coloured.set(shown.values, known = new Map());
  const key = `${scale} ${window.join(' ')}`;
  const before = known.get(key);
  if (before) return before;
  const part = new Float32Array(rows * columns);
  for (let row = 0; row < rows; row += 1) {
    const start = (window[0] + row) * seen.keys.length + window[2];
    part.set(shown.values.subarray(start, start + columns), row * columns);
  }
  const fresh = shades(part, full, scale);
  if (known.size > 8) known.clear();
  known.set(key, fresh);
  return fresh;
}

function labels(it: Plan, frame: Frame): Mark[] {
  const { seen, x, y, cell, window } = it;
  const step = Math.max(1, Math.ceil(LABEL / cell));
  const { search } = frame.choices;
  const marks: Mark[] = [];
  const size = Math.min(12, Math.max(10, cell - 2));
  const add = (item: Item, place: number, row: boolean): void => {
    const middle = (place + 0.5) * cell;
    const hit = found(item.text, search);
    if (place % step !== 0 && !hit) return;
    const fill = item.special ? 'dim' : 'ink';
    if (hit) {
      marks.push(row ? { kind: 'rect', x: PAD, y: y + place * cell, w: x - PAD - 2, h: Math.max(2, cell), fill: 'found' }
        : { kind: 'rect', x: x + place * cell, y: TITLE, w: Math.max(2, cell), h: y - TITLE - 2, fill: 'found' });
      if (place % step !== 0) return;
    }
    marks.push(row
      ? { kind: 'text', x: x - 5, y: y + middle + size * 0.35, size, text: short(item.text), anchor: 'end', limit: x - PAD - 6, fill }
      : { kind: 'text', x: x + middle + size * 0.35, y: y - 5, size, text: short(item.text), rotate: -90, limit: y - TITLE - 6, fill });
  };
  for (let q = window[0]; q <= window[1]; q += 1) add(seen.queries[q], q - window[0], true);
  for (let k = window[2]; k <= window[3]; k += 1) add(seen.keys[k], k - window[2], false);
  return marks;
}

// Frames around the chosen queries' rows and the chosen key's column.
function chosen({ seen, x, y, cell, window, rows, columns }: Plan, choices: Choices): Mark[] {
  const frame = (left: number, top: number, w: number, h: number): Mark =>
    ({ kind: 'rect', x: left, y: top, w, h, stroke: 'accent' });
  const rowsOf = choices.queries.length > 200 ? [] : places(seen.queries, choices.queries);
  const keysOf = choices.key === null ? [] : places(seen.keys, [choices.key]);
  return [
    ...rowsOf.filter((q) => q >= window[0] && q <= window[1])
      .map((q) => frame(x, y + (q - window[0]) * cell, cell * columns, cell)),
    ...keysOf.filter((k) => k >= window[2] && k <= window[3])
      .map((k) => frame(x + (k - window[2]) * cell, y, cell, cell * rows)),
  ];
}

function legend({ seen, most, full, x }: Plan, frame: Frame, y: number, width: number): Mark[] {
  const { choices } = frame;
  const size = Math.max(90, width);
  const bar = Float32Array.from({ length: 64 }, (_, i) => (seen.signed ? i / 31.5 - 1 : i / 63));
  const half = { linear: 0.5, sqrt: 0.25, log: 0.01 }[choices.scale];
  const name = seen.signed ? 'weight; − marks negative ones' : 'weight';
  const top = `${full < most ? '≥ ' : ''}${number(full, 3)}`;
  const ticks: [number, string][] = seen.signed ? [[0, `${full < most ? '≤ ' : ''}${number(-full, 3)}`], [0.5, '0'], [1, top]]
    : [[0, choices.scale === 'log' ? `≤ ${number(full * 1e-4)}` : '0'], [0.5, number(full * half, 3)], [1, top]];
  return [
    { kind: 'raster', x, y, w: size, h: 8, rows: 1, columns: 64, values: bar, signed: seen.signed },
    { kind: 'rect', x: x - 0.5, y: y - 0.5, w: size + 1, h: 9, stroke: 'rule' },
    ...ticks.map(([share, text], i): Mark => ({
      kind: 'text', x: x + share * size, y: y + 21, size: 11, fill: 'dim', text, anchor: (['start', 'middle', 'end'] as const)[i],
    })),
    ...(frame.measure(name, 11) > frame.width - x - size - 10 ? []
      : [{ kind: 'text', x: x + size + 10, y: y + 8, size: 11, fill: 'dim', text: name } as Mark]),
  ];
}

function rowTargets({ seen, x, y, cell, window }: Plan, choices: Choices): Target[] {
  const step = Math.max(1, Math.ceil(LABEL / cell));
  const all: Target[] = [];
  for (let q = window[0]; q <= window[1]; q += step) {
    const item = seen.queries[q];
    const on = item.tokens.every((each) => choices.queries.includes(each));
    all.push({
      x: PAD, y: y + (q - window[0]) * cell, w: x - PAD - 2, h: Math.max(cell, LABEL - 1),
      label: `query ${item.tokens[0]} ${quoted(item.text)}${on ? ', chosen' : ''}`, key: `row${q}`,
      pick: { queries: on ? [] : item.tokens }, toggles: { what: 'queries', index: item.tokens[0] },
      tip: () => [`query ${item.tokens[0]}`, whole(item.text)],
    });
  }
  return all;
}

function cellTarget(it: Plan, frame: Frame, q: number, k: number): Target {
  const { seen, shown, x, y, cell, window, rows, columns } = it;
  const [query, key] = [seen.queries[q], seen.keys[k]];
  const value = shown.values[q * seen.keys.length + k];
  const [left, top] = [x + (k - window[2]) * cell, y + (q - window[0]) * cell];
  return {
    x: left, y: top, w: cell, h: cell,
    key: `cell ${q} ${k}`,
    label: `query ${query.tokens[0]} ${quoted(query.text)} to key ${key.tokens[0]} ${quoted(key.text)}: ${number(value)}`,
    pick: { queries: query.tokens, key: key.tokens[0] },
    tip: () => cellTip(it, frame, q, k),
    over: () => [
      { kind: 'rect', x, y: top, w: cell * columns, h: cell, stroke: 'accent', opacity: 0.7 },
      { kind: 'rect', x: left, y, w: cell, h: cell * rows, stroke: 'accent', opacity: 0.7 },
      { kind: 'rect', x: left - 1, y: top - 1, w: cell + 2, h: cell + 2, stroke: 'ink' },
    ],
  };
}

function cellTip({ seen, shown }: Plan, frame: Frame, q: number, k: number): string[] {
  const [query, key] = [seen.queries[q], seen.keys[k]];
  const value = shown.values[q * seen.keys.length + k];
  const lines = [
    `${quoted(query.text, 60)} looks at ${quoted(key.text, 60)}`,
    `${rounded(value, seen.bound(shown.heads, q, k))}  ${shown.name}`,
  ];
  if (seen.hidden[k]) lines.push('this key is hidden as a sink');
  else if (masked(frame, seen, query, key)) lines.push('masked: it may not look there');
  if (shown.heads.length > 1) {
    const each = shown.heads.map((head) => seen.matrix(head)[q * seen.keys.length + k]);
    const best = each.reduce((top, one, i) => (Math.abs(one) > Math.abs(each[top]) ? i : top), 0);
    lines.push(`${number(each[best])}  largest, head ${seen.layer.heads[shown.heads[best]]}`);
  }
  if (seen.changed.length && query.tokens.length === 1 && key.tokens.length === 1) {
    const [t, s] = [query.tokens[0], key.tokens[0]];
    const raw = shown.heads.reduce((sum, head) => sum + seen.weights.at(head, t, s), 0) / shown.heads.length;
    if (raw !== value) lines.push(`${number(raw)}  weight before: ${seen.changed.join(', ')}`);
  }
  if (!seen.layer.normalised && query.tokens.length === 1) {
    const sums = shown.heads.map((head) => seen.weights.sum(head, query.tokens[0]));
    lines.push(`${number(sums.reduce((a, b) => a + b, 0) / sums.length)}  sum of the row`);
  }
  return lines;
}

function masked(frame: Frame, seen: Seen, query: Item, key: Item): boolean {
  const side = frame.opened.header.sides[frame.choices.side];
  if (seen.layer.mask === null) return false;
  const allowed = frame.opened.bytes(side.masks[seen.layer.mask].allowed);
  return !query.tokens.some((t) => key.tokens.some((s) => allowed[t * seen.weights.keys + s]));
}

function summary({ seen, shown, window, most }: Plan, frame: Frame): string {
  const side = frame.opened.header.sides[frame.choices.side];
  const zoomed = window[1] - window[0] + 1 < seen.queries.length || window[3] - window[2] + 1 < seen.keys.length;
  const part = zoomed ? `, queries ${window[0]} to ${window[1]} and keys ${window[2]} to ${window[3]} of ` : ', ';
  return `${layerTitle(side, frame.choices.layer)}, ${shown.name}${part}${seen.queries.length} queries (rows) by `
    + `${count(seen.keys.length, 'key')} (columns); the largest weight is ${number(most)}.`;
}

function thinned({ cell, rows, columns }: Plan): string | undefined {
  const step = Math.ceil(LABEL / cell);
  const drag = rows * columns > 400 ? ' Drag a frame, turn the wheel or press + to zoom.' : '';
  return step > 1 ? `Every ${step}th token is labelled.${drag}`.replace(/ ([23])th/, (_, n) => ` ${n}${n === '2' ? 'nd' : 'rd'}`) : undefined;
}

function table(frame: Frame): Table {
  const { seen, shown, window } = plan(frame);
  const side = frame.opened.header.sides[frame.choices.side];
  const rows: (string | number)[][] = [];
  for (let q = window[0]; q <= window[1] && rows.length < ROWS; q += 1) {
    for (let k = window[2]; k <= window[3]; k += 1) {
      rows.push([seen.queries[q].tokens[0], seen.queries[q].text, seen.keys[k].tokens[0], seen.keys[k].text,
        Number(shown.values[q * seen.keys.length + k].toPrecision(5))]);
    }
  }
  return {
    title: `${layerTitle(side, frame.choices.layer)}, ${shown.name}`,
    header: ['query', 'query token', 'key', 'key token', 'weight'], rows,
  };
}

function needs(opened: Frame['opened'], choices: Choices): Need[] {
  const mask = opened.header.sides[choices.side].layers[choices.layer]?.mask ?? null;
  const all = weightsNeeded(choices, choices.layer);
  return mask === null ? all : [...all, { side: choices.side, mask }];
}

export const matrix: View = {
  id: 'matrix',
  key: 'x',
  title: 'Matrix',
  about: 'Each row is a query, each column a key; one head, or the mean of several.',
  missing: missingLayers,
  needs,
  draw,
  table,
  controls: ['side', 'layer', 'heads', 'queries', 'scale', 'threshold', 'top', 'sinks', 'words', 'weighting', 'zoom', 'search'],
};
