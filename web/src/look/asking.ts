// What the rows of a layer are called.

import type { LayerInfo, Next, Sequence, Side } from './format';

const kept = new WeakMap<Next, Sequence>();

// Queries of cross-attention that write a text are called by the token that each writes, which is
// the one after it: so a word stands beside what was read for it. Others are the tokens themselves.
export function asking(side: Side, layer: LayerInfo): Sequence {
  const { next } = side;
  if (next === null || layer.kind !== 'cross' || layer.queries !== next.sequence)
    return side.sequences[layer.queries];
  let found = kept.get(next);
  if (!found) kept.set(next, (found = written(side.sequences[next.sequence], next)));
  return found;
}

// The last one writes what nobody has read: it has the name of the likeliest.
function written(read: Sequence, next: Next): Sequence {
  const last = next.top[read.tokens.length - 1]?.[0]?.[0] ?? '…';
  return {
    ...read,
    name: 'written',
    tokens: [...read.tokens.slice(1), { text: last, word: -1, special: true }],
    segments: read.segments && [...read.segments.slice(1), read.segments[read.segments.length - 1]],
    prompt: read.prompt === null ? null : Math.max(0, read.prompt - 1),
  };
}
