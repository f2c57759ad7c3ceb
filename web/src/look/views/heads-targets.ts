// Targets of the heads view: the tokens and their tooltips.

import type { Choices } from '../choices';
import type { PreparedWeights } from '../prepare-weights';
import { number, quoted, sensible, whole } from '../../shared/readable-text';
import type { Target } from '../view';
import type { Column, HeadsLayout } from './heads-layout';
import { meanHead, type DisplayedHead } from './strongest-lines';

export function tokenTargets(layout: HeadsLayout, column: Column, choices: Choices): Target[] {
  const { top, rowHeight } = layout;
  const left = column.side === 'left';
  return column.items.map((item, i): Target => {
    const name = `${left ? 'query' : 'key'} ${item.tokens[0]}`;
    const isSelected = left
      ? isSameSet(choices.queries, item.tokens)
      : choices.key !== null && item.tokens.includes(choices.key);
    const queries = isSelected && left ? [] : item.tokens;
    return {
      x: left ? column.strip : column.label - 4,
      y: top + i * rowHeight,
      w: column.width + layout.cellWidth * layout.displayed.length + 10,
      h: rowHeight,
      label: `${name} ${quoted(item.text)}${isSelected ? ', selected' : ''}`,
      key: `${left ? 'q' : 'k'}${item.tokens[0]}`,
      pick: left ? { queries } : { key: isSelected ? null : item.tokens[0] },
      preview: left ? { queries: item.tokens, key: null } : { key: item.tokens[0] },
      toggles: left ? { set: 'queries', index: item.tokens[0] } : undefined,
      tooltip: () => (left ? queryTooltip(layout, i) : keyTooltip(layout, i)),
      // beside its own column: what was asked for is the other one
      tooltipSpan: left ? [0, column.x] : [column.x, Infinity],
    };
  });
}

function isSameSet(one: number[], other: number[]): boolean {
  return one.length === other.length && one.every((each, i) => each === other[i]);
}

const MAX_LISTED = 6;

function queryTooltip({ prepared, displayed }: HeadsLayout, query: number): string[] {
  const item = prepared.queries[query];
  const mean = meanHead(prepared);
  const row = mean.row(query);
  const strongest = strongestIndices(row);
  return [
    whole(item.text),
    `attends to (${mean.name}):`,
    ...strongest.map((key) => {
      const top = displayed.length > 1 ? describeTopHead(displayed, prepared, query, key) : '';
      const weight = sensible(row[key], prepared.errorBound(mean.heads, query, key));
      return `${weight}  ${quoted(prepared.keys[key].text)}${top}`;
    }),
    ...(strongest.length ? [] : ['no visible token']),
    ...describeSums(prepared, query),
  ];
}

// The sum of the weights, for mechanisms whose rows need not sum to 1.
function describeSums(prepared: PreparedWeights, query: number): string[] {
  if (prepared.layer.normalised || prepared.queries[query].tokens.length > 1) return [];
  const sums = prepared.heads.map((head) =>
    prepared.weights.sum(head, prepared.queries[query].tokens[0]),
  );
  return [
    `weights sum to ${number(sums.reduce((a, b) => a + b, 0) / sums.length)}` +
      `${sums.length > 1 ? ' on average' : ''}`,
  ];
}

function keyTooltip({ prepared, displayed }: HeadsLayout, key: number): string[] {
  const mean = meanHead(prepared);
  const column = Float32Array.from(prepared.queries, (_, q) => mean.cell(q, key));
  const strongest = strongestIndices(column);
  return [
    whole(prepared.keys[key].text),
    ...(prepared.hidden[key] ? ['hidden as a sink'] : []),
    `gets attention (${mean.name}) from:`,
    ...strongest.map((query) => {
      const top = displayed.length > 1 ? describeTopHead(displayed, prepared, query, key) : '';
      const weight = sensible(column[query], prepared.errorBound(mean.heads, query, key));
      return `${weight}  ${quoted(prepared.queries[query].text)}${top}`;
    }),
    ...(strongest.length ? [] : ['no visible token']),
  ];
}

function strongestIndices(values: Float32Array): number[] {
  return Array.from(values.keys())
    .filter((i) => Math.abs(values[i]) > 0)
    .sort((one, other) => Math.abs(values[other]) - Math.abs(values[one]))
    .slice(0, MAX_LISTED);
}

function describeTopHead(
  displayed: DisplayedHead[],
  prepared: PreparedWeights,
  query: number,
  key: number,
): string {
  const magnitude = (one: DisplayedHead): number => Math.abs(one.cell(query, key));
  const largest = displayed.reduce((top, each) => (magnitude(each) > magnitude(top) ? each : top));
  return `  (most: head ${prepared.layer.heads[largest.head]}, ${number(largest.cell(query, key), 3)})`;
}
