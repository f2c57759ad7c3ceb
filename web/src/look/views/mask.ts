// The mask view: which query may attend to which key.

import { querySequence } from '../query-labels';
import type { Capture } from '../capture';
import type { Choices } from '../choices';
import type { LayerInfo, Side, Token } from '../capture-format';
import { layerName } from '../names';
import { count, percent, quoted } from '../../shared/readable-text';
import type { Table } from '../../shared/table-type';
import type { Drawing, Frame, Target, View } from '../view';
import { maskFacts, permission, ranges, type MaskFacts, type Permission } from './mask-facts';
import {
  cellMarks, crosshair, edgeLabels, layOutMask, isVisible, legendMarks, labelStep, type MaskGrid,
} from './mask-grid';
import { rectMark, layerTitle, paragraph, textMark, type MarkBlock } from './marks';

const PADDING = 12;
const PERMISSION_TEXTS: Record<Permission, string> = {
  allowed: 'allowed', forbidden: 'masked', padding: 'padding: masked for every query',
};

interface MaskData {
  layer: LayerInfo;
  title: string; // of the layer
  queries: Token[];
  keys: Token[];
  values: Float32Array | null; // null if everything is allowed
  facts: MaskFacts;
}

function readMask(capture: Capture, choices: Choices): MaskData {
  const side = capture.header.sides[choices.side];
  const layer = side.layers[choices.layer];
  const queries = querySequence(side, layer).tokens;
  const keys = side.sequences[layer.keys].tokens;
  const values = layer.mask === null ? null : capture.values(side.masks[layer.mask].allowed);
  const facts = maskFacts(values, queries.length, keys.length, layer.kind === 'self');
  return { layer, title: layerTitle(side, choices.layer), queries, keys, values, facts };
}

function describeCounts({ allowed, queries, keys }: MaskFacts): string {
  const pairs = queries * keys;
  const percentage = percent(allowed / pairs);
  return `${allowed.toLocaleString('en')} of ${count(pairs, 'pair')} allowed, ${percentage}.`;
}

function draw(frame: Frame): Drawing {
  const { capture, choices, width, measure } = frame;
  const maskData = readMask(capture, choices);
  const { facts, queries, keys, values } = maskData;
  const inner = width - 2 * PADDING;
  const sentence = `${maskData.title}: ${facts.sentence} ${describeCounts(facts)}`;
  const descriptionBlock = paragraph(sentence, PADDING, PADDING, inner, 13, measure, {});
  let top = PADDING + descriptionBlock.height + 4;
  const buttons = maskButtons(capture.header.sides[choices.side], choices, top, inner, measure);
  top += buttons.height + 4;
  const legendBlock = legendMarks(facts, PADDING, top, inner, measure);
  top += legendBlock.height + 8;
  const { zoom } = choices;
  const grid = layOutMask({ queries, keys, zoom, top, width, height: frame.height, measure });
  const { queries: [first, last], keys: [firstKey, lastKey], cellSize } = grid;
  const [w, h] = [(lastKey - firstKey + 1) * cellSize, (last - first + 1) * cellSize];
  const query = choices.queries[0];
  const { key } = choices;
  const isSelected = query !== undefined && key !== null && isVisible(grid, query, key);
  return {
    width, height: grid.y + h + PADDING,
    marks: [
      ...descriptionBlock.marks, ...buttons.marks, ...legendBlock.marks,
        ...cellMarks(values, facts, grid),
      ...edgeLabels(queries, keys, grid, query, key),
        ...(isSelected ? crosshair(grid, query, key) : []),
    ],
    targets: [...buttons.targets, ...rowTargets(maskData, grid)],
    targetAt: (x, y) => {
      const at: [number, number] = [
        first + Math.floor((y - grid.y) / cellSize),
          firstKey + Math.floor((x - grid.x) / cellSize)];
      return isVisible(grid, ...at) ? cellTarget(maskData, grid, ...at) : null;
    },
    zoom: {
      x: grid.x, y: grid.y, w, h, window: [first, last, firstKey, lastKey],
      rows: queries.length, columns: keys.length,
    },
    summary: `${maskData.title}, mask: ${facts.sentence} ${describeCounts(facts)}`,
  };
}

function cellTarget(maskData: MaskData, grid: MaskGrid, query: number, key: number): Target {
  const { queries, keys, values, facts, layer } = maskData;
  const state = permission(values, facts, query, key);
  const distance = key - query - (keys.length - queries.length);
  const lines = [
    `query ${query} ${quoted(queries[query].text)}`,
    `key ${key} ${quoted(keys[key].text)}`, PERMISSION_TEXTS[state],
  ];
  if (layer.kind === 'self') {
    const distanceText = `${count(Math.abs(distance), 'token')} ${distance < 0 ? 'back' : 'ahead'}`;
    lines.push(distance === 0 ? 'itself' : distanceText);
  }
  return {
    x: grid.x + (key - grid.keys[0]) * grid.cellSize,
      y: grid.y + (query - grid.queries[0]) * grid.cellSize,
    w: grid.cellSize, h: grid.cellSize, label: lines.join(', '), key: `mask/${query}/${key}`,
    tooltip: () => lines, pick: { queries: [query], key },
      overlay: () => crosshair(grid, query, key),
  };
}

// Whole query rows, for keyboard navigation.
function rowTargets(maskData: MaskData, grid: MaskGrid): Target[] {
  const { queries, keys, values, facts } = maskData;
  const [first, last] = grid.queries;
  const rows = [...queries.keys()].slice(first, last + 1);
  return rows.filter((_, i) => i % labelStep(grid) === 0).map((query): Target => {
    const allowedText = `may attend to ${facts.perQuery[query]} of ${count(keys.length, 'key')}`;
    const lines = [`query ${query} ${quoted(queries[query].text)}`, allowedText];
    const y = grid.y + (query - first) * grid.cellSize;
    const rowWidth = (grid.keys[1] - grid.keys[0] + 1) * grid.cellSize;
    return {
      x: PADDING, y, w: grid.x - PADDING, h: grid.cellSize * labelStep(grid),
        label: lines.join(': '),
      key: `mask/${query}`, pick: { queries: [query] },
      tooltip: () => [...lines, `keys ${ranges(values, facts, query) || 'none'}`],
      overlay: () => [rectMark(grid.x, y, rowWidth, Math.max(2, grid.cellSize),
        { stroke: 'accent' })],
    };
  });
}

interface MaskButtons extends MarkBlock {
  targets: Target[];
}

// If layers have different masks: one button for each mask, which selects its first layer.
function maskButtons(
  side: Side, choices: Choices, top: number, width: number, measure: Frame['measure'],
): MaskButtons {
  const groups = new Map<string, number[]>();
  side.layers.forEach(({ mask, queries, keys }, i) => {
    const name = `${mask} ${queries} ${keys}`;
    groups.set(name, [...(groups.get(name) ?? []), i]);
  });
  const buttons: MaskButtons = { marks: [], targets: [], height: 0 };
  if (groups.size < 2) return buttons;
  let [x, y] = [PADDING, top];
  [...groups.values()].forEach((layers, i) => {
    const moreText = layers.length > 1 ? ` and ${layers.length - 1} more` : '';
    const text = `mask ${i + 1}: layer ${layerName(side, layers[0])}${moreText}`;
    const w = Math.min(width, measure(text, 12) * 1.1 + 18);
    if (x > PADDING && x + w > PADDING + width) [x, y] = [PADDING, y + 28];
    const isDisplayed = layers.includes(choices.layer);
    const [fill, stroke] = isDisplayed ? ['card', 'accent'] : ['page', 'rule'];
    buttons.marks.push(
      rectMark(x, y, w, 22, { fill, stroke, radius: 4 }),
      textMark(x + 8, y + 15, text, 12, { bold: isDisplayed, limit: w - 12 }));
    const names = layers.map((layer) => layerName(side, layer)).join(', ');
    buttons.targets.push({
      x, y, w, h: 22, key: `mask/of/${i}`,
      label: `Mask ${i + 1} of ${groups.size}${isDisplayed ? ', displayed' : ''}: layers ${names}`,
      pick: { layer: layers[0] }, tooltip: () => [`layers ${names}`],
    });
    x += w + 8;
  });
  return { ...buttons, height: y + 28 - top };
}

function table({ capture, choices }: Frame): Table {
  const { title, queries, keys, values, facts } = readMask(capture, choices);
  return {
    title: `${title}, mask: which of ${count(keys.length, 'key')} each query may attend to`,
    header: ['query', 'token', 'keys allowed', 'fraction', 'which'],
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
  description: 'Which query may attend to which key: the causal triangle, windows and padding.',
  missingReason: (capture, choices) => (
    capture.header.sides[choices.side].layers[choices.layer] ? null
      : 'The capture has no attention layers.'),
  needs: (capture, choices) => {
    const index = capture.header.sides[choices.side].layers[choices.layer].mask;
    return index === null ? [] : [{ side: choices.side, mask: index }];
  },
  draw,
  table,
  controls: ['side', 'layer', 'zoom'],
};
