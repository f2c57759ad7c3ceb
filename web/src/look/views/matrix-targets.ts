// Targets of the matrix view: rows and cells, with their tooltips.

import type { Choices } from '../choices';
import type { Item, PreparedWeights } from '../prepare-weights';
import { number, quoted, sensible, whole } from '../../shared/readable-text';
import type { Frame, Target } from '../view';
import { LABEL_HEIGHT, PADDING, type MatrixLayout } from './matrix-layout';

export function rowTargets(
  { prepared, x, y, cell, window }: MatrixLayout,
  choices: Choices,
): Target[] {
  const step = Math.max(1, Math.ceil(LABEL_HEIGHT / cell));
  const targets: Target[] = [];
  for (let q = window[0]; q <= window[1]; q += step) {
    const item = prepared.queries[q];
    const isSelected = item.tokens.every((each) => choices.queries.includes(each));
    targets.push({
      x: PADDING,
      y: y + (q - window[0]) * cell,
      w: x - PADDING - 2,
      h: Math.max(cell, LABEL_HEIGHT - 1),
      label: `query ${item.tokens[0]} ${quoted(item.text)}${isSelected ? ', selected' : ''}`,
      key: `row${q}`,
      pick: { queries: isSelected ? [] : item.tokens },
      toggles: { set: 'queries', index: item.tokens[0] },
      tooltip: () => [`query ${item.tokens[0]}`, whole(item.text)],
    });
  }
  return targets;
}

export function cellTarget(layout: MatrixLayout, frame: Frame, q: number, k: number): Target {
  const { prepared, displayed, x, y, cell, window, rows, columns } = layout;
  const [query, key] = [prepared.queries[q], prepared.keys[k]];
  const value = displayed.values[q * prepared.keys.length + k];
  const [left, top] = [x + (k - window[2]) * cell, y + (q - window[0]) * cell];
  return {
    x: left,
    y: top,
    w: cell,
    h: cell,
    key: `cell ${q} ${k}`,
    label:
      `query ${query.tokens[0]} ${quoted(query.text)} to key ${key.tokens[0]} ` +
      `${quoted(key.text)}: ${number(value)}`,
    pick: { queries: query.tokens, key: key.tokens[0] },
    tooltip: () => cellTooltip(layout, frame, q, k),
    overlay: () => [
      { kind: 'rect', x, y: top, w: cell * columns, h: cell, stroke: 'accent', opacity: 0.7 },
      { kind: 'rect', x: left, y, w: cell, h: cell * rows, stroke: 'accent', opacity: 0.7 },
      { kind: 'rect', x: left - 1, y: top - 1, w: cell + 2, h: cell + 2, stroke: 'ink' },
    ],
  };
}

function cellTooltip(
  { prepared, displayed }: MatrixLayout,
  frame: Frame,
  q: number,
  k: number,
): string[] {
  const [query, key] = [prepared.queries[q], prepared.keys[k]];
  const value = displayed.values[q * prepared.keys.length + k];
  const lines = [
    `${quoted(query.text, 60)} attends to ${quoted(key.text, 60)}`,
    `${sensible(value, prepared.errorBound(displayed.heads, q, k))}  ${displayed.name}`,
  ];
  if (prepared.hidden[k]) lines.push('this key is hidden as a sink');
  else if (isMasked(frame, prepared, query, key))
    lines.push('masked: the query may not attend to this key');
  if (displayed.heads.length > 1) {
    const weights = displayed.heads.map(
      (head) => prepared.matrix(head)[q * prepared.keys.length + k],
    );
    const largest = weights.reduce(
      (top, one, i) => (Math.abs(one) > Math.abs(weights[top]) ? i : top),
      0,
    );
    lines.push(
      `${number(weights[largest])}  largest: head ${prepared.layer.heads[displayed.heads[largest]]}`,
    );
  }
  if (prepared.adjustments.length && query.tokens.length === 1 && key.tokens.length === 1) {
    const [t, s] = [query.tokens[0], key.tokens[0]];
    const captured =
      displayed.heads.reduce((sum, head) => sum + prepared.weights.at(head, t, s), 0) /
      displayed.heads.length;
    if (captured !== value)
      lines.push(
        `${number(captured)}  captured weight, before: ${prepared.adjustments.join(', ')}`,
      );
  }
  if (!prepared.layer.normalised && query.tokens.length === 1) {
    const sums = displayed.heads.map((head) => prepared.weights.sum(head, query.tokens[0]));
    lines.push(`${number(sums.reduce((a, b) => a + b, 0) / sums.length)}  sum of the row`);
  }
  return lines;
}

function isMasked(frame: Frame, prepared: PreparedWeights, query: Item, key: Item): boolean {
  const side = frame.capture.header.sides[frame.choices.side];
  if (prepared.layer.mask === null) return false;
  const allowed = frame.capture.bytes(side.masks[prepared.layer.mask].allowed);
  return !query.tokens.some((t) => key.tokens.some((s) => allowed[t * prepared.weights.keys + s]));
}
