// Tokens that can be pointed at, and what their tips say.

import type { Choices } from '../choices';
import type { Seen } from '../prepare';
import { number, quoted, rounded, whole } from '../../shared/text';
import type { Target } from '../view';
import type { Column, Plan } from './heads-layout';
import { meanHead, type Shown } from './lines';

export function targets(it: Plan, column: Column, choices: Choices): Target[] {
  const { top, row } = it;
  const left = column.side === 'left';
  return column.items.map((item, i): Target => {
    const name = `${left ? 'query' : 'key'} ${item.tokens[0]}`;
    const chosen = left
      ? same(choices.queries, item.tokens)
      : choices.key !== null && item.tokens.includes(choices.key);
    const queries = chosen && left ? [] : item.tokens;
    return {
      x: left ? column.strip : column.label - 4,
      y: top + i * row,
      w: column.width + (it.cell ? it.cell * it.shown.length + 6 : 0) + 4,
      h: row,
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
  const row = mean.row(query);
  const best = strongestOf(row);
  return [
    whole(item.text),
    `looks at (${mean.name}):`,
    ...best.map((key) => {
      const top = shown.length > 1 ? topHead(shown, seen, query, key) : '';
      const weight = rounded(row[key], seen.bound(mean.heads, query, key));
      return `${weight}  ${quoted(seen.keys[key].text)}${top}`;
    }),
    ...(best.length ? [] : ['nothing that is shown']),
    ...sumsOf(seen, query),
  ];
}

// Rows need not sum to 1; where they do not, it is said.
function sumsOf(seen: Seen, query: number): string[] {
  if (seen.layer.normalised || seen.queries[query].tokens.length > 1) return [];
  const sums = seen.heads.map((head) => seen.weights.sum(head, seen.queries[query].tokens[0]));
  return [
    `weights sum to ${number(sums.reduce((a, b) => a + b, 0) / sums.length)}` +
      `${sums.length > 1 ? ' on average' : ''}`,
  ];
}

function keyTip({ seen, shown }: Plan, key: number): string[] {
  const mean = meanHead(seen);
  const column = Float32Array.from(seen.queries, (_, q) => mean.cell(q, key));
  const best = strongestOf(column);
  return [
    whole(seen.keys[key].text),
    ...(seen.hidden[key] ? ['hidden as a sink'] : []),
    `is looked at (${mean.name}) by:`,
    ...best.map((query) => {
      const top = shown.length > 1 ? topHead(shown, seen, query, key) : '';
      const weight = rounded(column[query], seen.bound(mean.heads, query, key));
      return `${weight}  ${quoted(seen.queries[query].text)}${top}`;
    }),
    ...(best.length ? [] : ['nothing that is shown']),
  ];
}

function strongestOf(values: Float32Array): number[] {
  return Array.from(values.keys())
    .filter((i) => Math.abs(values[i]) > 0)
    .sort((one, other) => Math.abs(values[other]) - Math.abs(values[one]))
    .slice(0, LISTED);
}

function topHead(shown: Shown[], seen: Seen, query: number, key: number): string {
  const size = (one: Shown): number => Math.abs(one.cell(query, key));
  const best = shown.reduce((top, each) => (size(each) > size(top) ? each : top));
  return `  (most: head ${seen.layer.heads[best.head]}, ${number(best.cell(query, key), 3)})`;
}
