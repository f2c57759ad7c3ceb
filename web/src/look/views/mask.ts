// The mask as its own layer: which query may look at which key.

import { asking } from '../asking';
import type { Opened } from '../capture';
import type { Choices } from '../choices';
import type { LayerInfo, Side, Token } from '../format';
import { layerName } from '../names';
import { count, percent, quoted } from '../../shared/text';
import type { Table } from '../../shared/table';
import type { Drawing, Frame, Target, View } from '../view';
import { factsOf, permission, ranges, type MaskFacts, type Permission } from './masks';
import {
  cellMarks, crosshair, edges, gridOf, inside, legend, rowsApart, type Grid,
} from './mask-grid';
import { box, layerTitle, paragraph, words, type Piece } from './parts';

const PAD = 12;
const WORDS: Record<Permission, string> = {
  allowed: 'may look', forbidden: 'may not look', padding: 'may not look, as no query may: padding',
};

interface Shown {
  layer: LayerInfo;
  title: string; // of the layer
  queries: Token[];
  keys: Token[];
  values: Float32Array | null; // null: all may look at all
  facts: MaskFacts;
}

function shownOf(opened: Opened, choices: Choices): Shown {
  const side = opened.header.sides[choices.side];
  const layer = side.layers[choices.layer];
  const queries = asking(side, layer).tokens;
  const keys = side.sequences[layer.keys].tokens;
  const values = layer.mask === null ? null : opened.values(side.masks[layer.mask].allowed);
  const facts = factsOf(values, queries.length, keys.length, layer.kind === 'self');
  return { layer, title: layerTitle(side, choices.layer), queries, keys, values, facts };
}

function inNumbers({ allowed, queries, keys }: MaskFacts): string {
  const pairs = queries * keys;
  const share = percent(allowed / pairs);
  return `${allowed.toLocaleString('en')} of ${count(pairs, 'pair')} allowed, ${share}.`;
}

function draw(frame: Frame): Drawing {
  const { opened, choices, width, measure } = frame;
  const shown = shownOf(opened, choices);
  const { facts, queries, keys, values } = shown;
  const inner = width - 2 * PAD;
  const sentence = `${shown.title}: ${facts.sentence} ${inNumbers(facts)}`;
  const about = paragraph(sentence, PAD, PAD, inner, 13, measure, {});
  let top = PAD + about.height + 4;
  const others = otherMasks(opened.header.sides[choices.side], choices, top, inner, measure);
  top += others.height + 4;
  const signs = legend(facts, PAD, top, inner, measure);
  top += signs.height + 8;
  const { zoom } = choices;
  const grid = gridOf({ queries, keys, zoom, top, width, height: frame.height, measure });
  const { queries: [first, last], keys: [firstKey, lastKey], cell } = grid;
  const [w, h] = [(lastKey - firstKey + 1) * cell, (last - first + 1) * cell];
  const query = choices.queries[0];
  const { key } = choices;
  const chosen = query !== undefined && key !== null && inside(grid, query, key);
  return {
    width, height: grid.y + h + PAD,
    marks: [
      ...about.marks, ...others.marks, ...signs.marks, ...cellMarks(values, facts, grid),
      ...edges(queries, keys, grid, query, key), ...(chosen ? crosshair(grid, query, key) : []),
    ],
    targets: [...others.targets, ...rowTargets(shown, grid)],
    at: (x, y) => {
      const at: [number, number] = [
        first + Math.floor((y - grid.y) / cell), firstKey + Math.floor((x - grid.x) / cell)];
      return inside(grid, ...at) ? cellTarget(shown, grid, ...at) : null;
    },
    zoom: {
      x: grid.x, y: grid.y, w, h, window: [first, last, firstKey, lastKey],
      rows: queries.length, columns: keys.length,
    },
    summary: `${shown.title}, mask: ${facts.sentence} ${inNumbers(facts)}`,
  };
}

function cellTarget(shown: Shown, grid: Grid, query: number, key: number): Target {
  const { queries, keys, values, facts, layer } = shown;
  const may = permission(values, facts, query, key);
  const distance = key - query - (keys.length - queries.length);
  const lines = [
    `query ${query} ${quoted(queries[query].text)}`,
    `key ${key} ${quoted(keys[key].text)}`, WORDS[may],
  ];
  if (layer.kind === 'self') {
    const far = `${count(Math.abs(distance), 'token')} ${distance < 0 ? 'back' : 'ahead'}`;
    lines.push(distance === 0 ? 'itself' : far);
  }
  return {
    x: grid.x + (key - grid.keys[0]) * grid.cell, y: grid.y + (query - grid.queries[0]) * grid.cell,
    w: grid.cell, h: grid.cell, label: lines.join(', '), key: `mask/${query}/${key}`,
    tip: () => lines, pick: { queries: [query], key }, over: () => crosshair(grid, query, key),
  };
}

// A query as a whole, for the keyboard.
function rowTargets(shown: Shown, grid: Grid): Target[] {
  const { queries, keys, values, facts } = shown;
  const [first, last] = grid.queries;
  const rows = [...queries.keys()].slice(first, last + 1);
  return rows.filter((_, i) => i % rowsApart(grid) === 0).map((query): Target => {
    const seen = `may look at ${facts.perQuery[query]} of ${count(keys.length, 'key')}`;
    const lines = [`query ${query} ${quoted(queries[query].text)}`, seen];
    const y = grid.y + (query - first) * grid.cell;
    const wide = (grid.keys[1] - grid.keys[0] + 1) * grid.cell;
    return {
      x: PAD, y, w: grid.x - PAD, h: grid.cell * rowsApart(grid), label: lines.join(': '),
      key: `mask/${query}`, pick: { queries: [query] },
      tip: () => [...lines, `keys ${ranges(values, facts, query) || 'none'}`],
      over: () => [box(grid.x, y, wide, Math.max(2, grid.cell), { stroke: 'accent' })],
    };
  });
}

interface Buttons extends Piece {
  targets: Target[];
}

// Where layers have different masks: one button for each, which goes to its first layer.
function otherMasks(
  side: Side, choices: Choices, top: number, width: number, measure: Frame['measure'],
): Buttons {
  const groups = new Map<string, number[]>();
  side.layers.forEach(({ mask, queries, keys }, i) => {
    const name = `${mask} ${queries} ${keys}`;
    groups.set(name, [...(groups.get(name) ?? []), i]);
  });
  const all: Buttons = { marks: [], targets: [], height: 0 };
  if (groups.size < 2) return all;
  let [x, y] = [PAD, top];
  [...groups.values()].forEach((layers, i) => {
    const more = layers.length > 1 ? ` and ${layers.length - 1} more` : '';
    const text = `mask ${i + 1}: layer ${layerName(side, layers[0])}${more}`;
    const w = Math.min(width, measure(text, 12) * 1.1 + 18);
    if (x > PAD && x + w > PAD + width) [x, y] = [PAD, y + 28];
    const here = layers.includes(choices.layer);
    const [fill, stroke] = here ? ['card', 'accent'] : ['page', 'rule'];
    all.marks.push(
      box(x, y, w, 22, { fill, stroke, radius: 4 }),
      words(x + 8, y + 15, text, 12, { bold: here, limit: w - 12 }));
    const names = layers.map((layer) => layerName(side, layer)).join(', ');
    all.targets.push({
      x, y, w, h: 22, key: `mask/of/${i}`,
      label: `Mask ${i + 1} of ${groups.size}${here ? ', shown' : ''}: layers ${names}`,
      pick: { layer: layers[0] }, tip: () => [`layers ${names}`],
    });
    x += w + 8;
  });
  return { ...all, height: y + 28 - top };
}

function table({ opened, choices }: Frame): Table {
  const { title, queries, keys, values, facts } = shownOf(opened, choices);
  return {
    title: `${title}, mask: which of ${count(keys.length, 'key')} each query may look at`,
    header: ['query', 'token', 'keys allowed', 'share', 'which'],
    rows: queries.map((token, query) => [
      query, token.text, facts.perQuery[query],
      Number((facts.perQuery[query] / keys.length).toPrecision(7)), ranges(values, facts, query),
    ]),
  };
}

export const mask: View = {
  id: 'mask',
  key: 'k',
  title: 'Mask',
  about: 'Which query may look at which key: the causal triangle, windows and padding.',
  missing: (opened, choices) => (
    opened.header.sides[choices.side].layers[choices.layer] ? null : 'No layer was captured.'),
  needs: (opened, choices) => {
    const index = opened.header.sides[choices.side].layers[choices.layer].mask;
    return index === null ? [] : [{ side: choices.side, mask: index }];
  },
  draw,
  table,
  controls: ['side', 'layer', 'zoom'],
};
