// Cells and rows that can be pointed at, and the numbers in their tips.

import type { Choices } from '../choices';
import type { Item, Seen } from '../prepare';
import { number, quoted, rounded, whole } from '../../shared/text';
import type { Frame, Target } from '../view';
import { LABEL, PAD, type Plan } from './matrix-layout';

export function rowTargets({ seen, x, y, cell, window }: Plan, choices: Choices): Target[] {
  const step = Math.max(1, Math.ceil(LABEL / cell));
  const all: Target[] = [];
  for (let q = window[0]; q <= window[1]; q += step) {
    const item = seen.queries[q];
    const on = item.tokens.every((each) => choices.queries.includes(each));
    all.push({
      x: PAD,
      y: y + (q - window[0]) * cell,
      w: x - PAD - 2,
      h: Math.max(cell, LABEL - 1),
      label: `query ${item.tokens[0]} ${quoted(item.text)}${on ? ', chosen' : ''}`,
      key: `row${q}`,
      pick: { queries: on ? [] : item.tokens },
      toggles: { what: 'queries', index: item.tokens[0] },
      tip: () => [`query ${item.tokens[0]}`, whole(item.text)],
    });
  }
  return all;
}

export function cellTarget(it: Plan, frame: Frame, q: number, k: number): Target {
  const { seen, shown, x, y, cell, window, rows, columns } = it;
  const [query, key] = [seen.queries[q], seen.keys[k]];
  const value = shown.values[q * seen.keys.length + k];
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
    const raw =
      shown.heads.reduce((sum, head) => sum + seen.weights.at(head, t, s), 0) / shown.heads.length;
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
