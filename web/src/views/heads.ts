// Tokens in two columns; a line for each weight, in its head's colour.

import type { Opened } from '../capture';
import type { Choices } from '../choices';
import { layerTitle } from '../names';
import { places, prepare, shade, type Item, type Seen } from '../prepare';
import { count, found, isolate, number, quoted, rounded, short, whole } from '../text';
import { headColour, headDash } from '../theme';
import type { Drawing, Frame, Mark, Need, Table, Target, View } from '../view';
import { meanHead, received, shownHeads, strongest, type Shown, type Strong } from './lines';

const PAD = 12;
const WIDEST = 1040;
const ROW = { least: 13, most: 26 };
const STRIP = 96; // pixels for what each head gives to a token
const DOTS = [1.5, 3]; // a negative weight
const BOLD = 1.1; // how much wider a chosen token is
const SWATCH = 18;
const SPACE = 44; // for one head in the legend
const TOP = 24; // the title
const HEAD = 22; // names of the columns

interface Column {
  items: Item[];
  x: number; // where lines end
  strip: number; // where the strip begins
  label: number; // where labels begin, or end
  width: number; // of labels
  side: 'left' | 'right';
}

interface Plan {
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

export function weightsNeeded(choices: Choices, layer: number): Need[] {
  return [{ side: choices.side, layer, parts: choices.weighting === 'norms' ? ['weights', 'norms'] : ['weights'] }];
}

function plan(frame: Frame, layer: number): Plan {
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
      items, side, width: wide, label: edge, strip: side === 'left' ? left : edge + wide + 6,
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

function legendHeight(shown: Shown[], width: number): number {
  const each = Math.max(1, Math.floor(width / SPACE));
  return shown.length === 1 && shown[0].head < 0 ? 0 : Math.ceil(shown.length / each) * SWATCH + 4;
}

export function drawHeads(frame: Frame, layer: number): Drawing {
  const { choices } = frame;
  const it = plan(frame, layer);
  const { seen, shown, columns, top, row } = it;
  const asked = choices.queries.length ? places(seen.queries, choices.queries) : null;
  const answered = choices.key === null ? null : places(seen.keys, [choices.key]);
  const lines = strongest(shown, seen.keys.length, asked, answered, choices.scale);
  const marks: Mark[] = [
    ...heading(it, frame, layer), ...rules(it, frame, layer), ...strokes(it, lines, choices),
    ...strips(it, asked, answered, choices),
    ...labels(it, columns[0], asked, choices), ...labels(it, columns[1], answered, choices),
  ];
  return {
    width: frame.width,
    height: top + row * Math.max(seen.queries.length, seen.keys.length) + PAD,
    marks,
    targets: [...targets(it, columns[0], choices), ...targets(it, columns[1], choices)],
    summary: summary(it, frame, layer, asked, answered),
    note: leftOut(lines),
  };
}

function heading(it: Plan, frame: Frame, layer: number): Mark[] {
  const side = frame.opened.header.sides[frame.choices.side];
  const { seen, shown, left, width, columns } = it;
  const heads = shown.length > 1 ? count(shown.length, 'head') : shown[0].name;
  const marks: Mark[] = [{
    kind: 'text', x: left, y: 15, size: 13, bold: true, limit: width,
    text: [`${layerTitle(side, layer)}, ${heads}`, ...seen.changed].join(' · '),
  }];
  if (legendHeight(shown, width)) marks.push(...legend(it));
  const names = [`queries: ${isolate(short(side.sequences[seen.layer.queries].name))}`,
    `keys: ${isolate(short(side.sequences[seen.layer.keys].name))}`];
  columns.forEach((column, i) => marks.push({
    kind: 'text', x: column.label, y: it.top - 8, size: 11, fill: 'dim', text: names[i],
    anchor: column.side === 'left' ? 'end' : 'start', limit: Math.max(column.width, 90),
  }));
  return marks;
}

function legend({ shown, seen, left, width }: Plan): Mark[] {
  const each = Math.max(1, Math.floor(width / SPACE));
  const dotted: Mark[] = seen.signed
    ? [{ kind: 'text', x: left + width, y: 15, size: 11, fill: 'dim', anchor: 'end', text: 'dotted: negative' }] : [];
  return dotted.concat(shown.flatMap(({ head }, i): Mark[] => {
    const [x, y] = [left + (i % each) * SPACE, TOP + Math.floor(i / each) * SWATCH + 10];
    return [
      { kind: 'line', x1: x, y1: y, x2: x + 20, y2: y, stroke: colourOf(head), width: 3, opacity: 1, dash: dashOf(head, seen) },
      { kind: 'text', x: x + 24, y: y + 4, size: 11, fill: 'dim', text: String(seen.layer.heads[head]) },
    ];
  }));
}

export function colourOf(head: number): string {
  return head < 0 ? 'accent' : headColour(head);
}

// Where weights can be negative, dots are for the sign.
function dashOf(head: number, seen: Seen): number[] {
  return head < 0 || seen.signed ? [] : headDash(head);
}

// Thin rules where one segment ends and the next begins, and before what was generated.
function rules({ seen, columns, top, row }: Plan, frame: Frame, layer: number): Mark[] {
  const side = frame.opened.header.sides[frame.choices.side];
  const info = side.layers[layer];
  return columns.flatMap((column, i) => {
    const sequence = side.sequences[i === 0 ? info.queries : info.keys];
    const items = i === 0 ? seen.queries : seen.keys;
    return items.flatMap((item, place): Mark[] => {
      const token = item.tokens[0];
      const begins = token > 0 && (sequence.prompt === token
        || (sequence.segments !== null && sequence.segments[token] !== sequence.segments[token - 1]));
      const [from, to] = column.side === 'left' ? [column.label - column.width, column.label]
        : [column.label, column.label + column.width];
      const y = top + place * row;
      return begins ? [{ kind: 'line', x1: from, y1: y, x2: to, y2: y, stroke: 'dim', width: 1, opacity: 0.6, dash: [2, 2] }] : [];
    });
  });
}

function strokes({ seen, shown, columns, top, row }: Plan, lines: Strong, choices: Choices): Mark[] {
  const sparse = lines.size < 3000;
  const groups = new Map<number, number[]>(); // lines of one head and one sign
  for (let i = 0; i < lines.size; i += 1) {
    const key = lines.shown[i] * 2 + (lines.weights[i] < 0 ? 1 : 0);
    const group = groups.get(key);
    if (group) group.push(i);
    else groups.set(key, [i]);
  }
  return [...groups.values()].map((group): Mark => {
    const [points, size] = [new Float32Array(group.length * 4), group.length];
    const [opacities, widths] = [new Float32Array(size), new Float32Array(size)];
    group.forEach((line, i) => {
      const strength = shade(Math.abs(lines.weights[line]) / lines.most, choices.scale);
      points[4 * i] = columns[0].x;
      points[4 * i + 1] = top + (lines.queries[line] + 0.5) * row;
      points[4 * i + 2] = columns[1].x;
      points[4 * i + 3] = top + (lines.keys[line] + 0.5) * row;
      opacities[i] = Math.max(0.04, strength * (sparse ? 0.95 : 0.8));
      widths[i] = sparse ? 0.75 + 2 * strength : 0.75 + 0.5 * strength;
    });
    const { head } = shown[lines.shown[group[0]]];
    const dash = lines.weights[group[0]] < 0 ? DOTS : sparse ? dashOf(head, seen) : [];
    return { kind: 'lines', points, opacities, widths, stroke: colourOf(head), dash };
  });
}

// Beside each key what it gets from the queries together; beside each query what it gives to the chosen key.
function strips(it: Plan, asked: number[] | null, answered: number[] | null, choices: Choices): Mark[] {
  const { seen, shown, columns, top, row, cell } = it;
  if (!cell) return [];
  const marks: Mark[] = [];
  const cells = (column: Column, values: Float32Array[], most: number): void => {
    values.forEach((row_, i) => row_.forEach((value, place) => {
      const strength = shade(Math.abs(value) / most, choices.scale);
      if (!(strength > 0.02)) return;
      marks.push({
        kind: 'rect', x: column.strip + i * cell, y: top + place * row + 1, w: cell - 1, h: row - 2,
        fill: colourOf(shown[i].head), opacity: strength,
      });
      if (value < 0) {
        const y = top + (place + 0.5) * row;
        marks.push({ kind: 'line', x1: column.strip + i * cell, y1: y, x2: column.strip + (i + 1) * cell - 1, y2: y, stroke: 'ink', width: 1, opacity: 1 });
      }
    }));
  };
  if (answered) {
    const [key] = answered;
    const given = shown.map(({ values }) =>
      Float32Array.from(seen.queries, (_, q) => (asked && !asked.includes(q) ? 0 : values[q * seen.keys.length + key])));
    cells(columns[0], given, Math.max(1e-30, ...given.map((each) => each.reduce((m, x) => Math.max(m, Math.abs(x)), 0))));
  } else {
    const { sums, most } = received(shown, seen.keys.length, asked);
    if (most > 0) cells(columns[1], sums, most);
  }
  return marks;
}

function labels(it: Plan, column: Column, chosen: number[] | null, choices: Choices): Mark[] {
  const { seen, top, row, size } = it;
  const picked = new Set(chosen ?? []);
  const hidden = column.side === 'right' ? seen.hidden : [];
  return column.items.flatMap((item, i): Mark[] => {
    const left = column.side === 'left';
    const x = left ? column.label - column.width : column.label;
    const back = found(item.text, choices.search) ? 'found' : picked.has(i) ? 'card' : null;
    const box: Mark[] = back ? [{ kind: 'rect', x, y: top + i * row, w: column.width, h: row, fill: back, radius: 3 }] : [];
    const bar: Mark[] = picked.has(i)
      ? [{ kind: 'rect', x: left ? x : x + column.width - 3, y: top + i * row, w: 3, h: row, fill: 'accent' }] : [];
    return [...box, ...bar, {
      kind: 'text', x: left ? column.label - 4 : column.label + 4, y: top + (i + 0.5) * row + size * 0.35, size,
      text: short(item.text), anchor: left ? 'end' : 'start', bold: picked.has(i), limit: column.width - 8,
      fill: item.special || hidden[i] ? 'dim' : 'ink',
    }];
  });
}

function targets(it: Plan, column: Column, choices: Choices): Target[] {
  const { top, row } = it;
  const left = column.side === 'left';
  return column.items.map((item, i): Target => {
    const name = `${left ? 'query' : 'key'} ${item.tokens[0]}`;
    const chosen = left ? same(choices.queries, item.tokens) : choices.key !== null && item.tokens.includes(choices.key);
    const queries = chosen && left ? [] : item.tokens;
    return {
      x: left ? column.strip : column.label - 4, y: top + i * row, w: column.width + (it.cell ? it.cell * it.shown.length + 6 : 0) + 4, h: row,
      label: `${name} ${quoted(item.text)}${chosen ? ', chosen' : ''}`,
      key: `${left ? 'q' : 'k'}${item.tokens[0]}`,
      pick: left ? { queries } : { key: chosen ? null : item.tokens[0] },
      preview: left ? { queries: item.tokens, key: null } : { key: item.tokens[0] },
      toggles: left ? { what: 'queries', index: item.tokens[0] } : undefined,
      tip: () => (left ? queryTip(it, i) : keyTip(it, i)),
    };
  });
}

function same(one: number[], other: number[]): boolean {
  return one.length === other.length && one.every((each, i) => each === other[i]);
}

const LISTED = 6;

function queryTip({ seen, shown }: Plan, query: number): string[] {
  const item = seen.queries[query];
  const mean = meanHead(seen);
  const columns = seen.keys.length;
  const row = mean.values.subarray(query * columns, (query + 1) * columns);
  const best = strongestOf(row);
  return [
    whole(item.text), `looks at (${mean.name}):`,
    ...best.map((key) => {
      const top = shown.length > 1 ? topHead(shown, seen, query * columns + key) : '';
      return `${rounded(row[key], seen.bound(mean.heads, query, key))}  ${quoted(seen.keys[key].text)}${top}`;
    }),
    ...(best.length ? [] : ['nothing that is shown']),
    ...sumsOf(seen, query),
  ];
}

// Rows need not sum to 1; where they do not, it is said.
function sumsOf(seen: Seen, query: number): string[] {
  if (seen.layer.normalised || seen.queries[query].tokens.length > 1) return [];
  const sums = seen.heads.map((head) => seen.weights.sum(head, seen.queries[query].tokens[0]));
  return [`weights sum to ${number(sums.reduce((a, b) => a + b, 0) / sums.length)}${sums.length > 1 ? ' on average' : ''}`];
}

function keyTip({ seen, shown }: Plan, key: number): string[] {
  const mean = meanHead(seen);
  const columns = seen.keys.length;
  const column = Float32Array.from(seen.queries, (_, q) => mean.values[q * columns + key]);
  const best = strongestOf(column);
  return [
    whole(seen.keys[key].text), ...(seen.hidden[key] ? ['hidden as a sink'] : []), `is looked at (${mean.name}) by:`,
    ...best.map((query) => {
      const top = shown.length > 1 ? topHead(shown, seen, query * columns + key) : '';
      return `${rounded(column[query], seen.bound(mean.heads, query, key))}  ${quoted(seen.queries[query].text)}${top}`;
    }),
    ...(best.length ? [] : ['nothing that is shown']),
  ];
}

function strongestOf(values: Float32Array): number[] {
  return Array.from(values.keys()).filter((i) => Math.abs(values[i]) > 0)
    .sort((one, other) => Math.abs(values[other]) - Math.abs(values[one])).slice(0, LISTED);
}

function topHead(shown: Shown[], seen: Seen, cell: number): string {
  const best = shown.reduce((top, each) => (Math.abs(each.values[cell]) > Math.abs(top.values[cell]) ? each : top));
  return `  (most: head ${seen.layer.heads[best.head]}, ${number(best.values[cell], 3)})`;
}

function summary(it: Plan, frame: Frame, layer: number, asked: number[] | null, answered: number[] | null): string {
  const { seen, shown } = it;
  const side = frame.opened.header.sides[frame.choices.side];
  const from = asked ? asked.map((i) => quoted(seen.queries[i].text)).slice(0, 5).join(', ') : count(seen.queries.length, 'query').replace('querys', 'queries');
  const to = answered?.length ? quoted(seen.keys[answered[0]].text) : count(seen.keys.length, 'key');
  return `${layerTitle(side, layer)}, ${shown.length > 1 ? count(shown.length, 'head') : shown[0].name}: `
    + `attention from ${from}${asked && asked.length > 5 ? ', …' : ''} to ${to}.`;
}

function leftOut(lines: Strong): string | undefined {
  if (!lines.left) return undefined;
  return `${count(lines.size, 'line')} drawn; ${lines.left.toLocaleString('en')} with weights below `
    + `${number(lines.cut)} left out. Point at a token or choose fewer heads to see them.`;
}

export function tableOf(frame: Frame, layer: number): Table {
  const { choices } = frame;
  const seen = prepare(frame.opened, choices, choices.side, layer);
  const shown = shownHeads(seen, choices);
  const asked = choices.queries.length ? places(seen.queries, choices.queries) : null;
  const answered = choices.key === null ? null : places(seen.keys, [choices.key]);
  const lines = strongest(shown, seen.keys.length, asked, answered, choices.scale);
  const order = Array.from({ length: lines.size }, (_, i) => i)
    .sort((one, other) => Math.abs(lines.weights[other]) - Math.abs(lines.weights[one]));
  const side = frame.opened.header.sides[choices.side];
  return {
    title: `${layerTitle(side, layer)}: the lines that are drawn, strongest first`,
    header: ['head', 'query', 'query token', 'key', 'key token', 'weight'],
    rows: order.map((i) => {
      const [query, key] = [seen.queries[lines.queries[i]], seen.keys[lines.keys[i]]];
      const { head } = shown[lines.shown[i]];
      return [head < 0 ? 'mean' : seen.layer.heads[head], query.tokens[0], query.text, key.tokens[0], key.text,
        Number(lines.weights[i].toPrecision(5))];
    }),
  };
}

export const missingLayers = (opened: Opened, choices: Choices): string | null =>
  (opened.header.sides[choices.side].layers.length ? null : 'This capture has no attention layers.');

export const heads: View = {
  id: 'heads',
  key: 'e',
  title: 'Heads',
  about: 'Lines from each token to the tokens it looks at, in the colours of the heads.',
  missing: missingLayers,
  needs: (_, choices) => weightsNeeded(choices, choices.layer),
  draw: (frame) => drawHeads(frame, frame.choices.layer),
  table: (frame) => tableOf(frame, frame.choices.layer),
  controls: ['side', 'layer', 'heads', 'queries', 'scale', 'threshold', 'top', 'sinks', 'words', 'weighting', 'search'],
};
