// The tokens that label the query rows of a layer.

import type { LayerInfo, Next, Sequence, Side } from './capture-format';

const cache = new WeakMap<Next, Sequence>();

// A decoder query in cross-attention predicts the next token, so its row is labeled with that token:
// a written word then stands beside the source words it attended to. All other rows keep their own.
export function querySequence(side: Side, layer: LayerInfo): Sequence {
  const { next } = side;
  if (next === null || layer.kind !== 'cross' || layer.queries !== next.sequence)
    return side.sequences[layer.queries];
  let sequence = cache.get(next);
  if (!sequence)
    cache.set(next, (sequence = shiftToNextTokens(side.sequences[next.sequence], next)));
  return sequence;
}

// The last query predicts a token that is not in the text: its label is the most likely one.
function shiftToNextTokens(tokensRead: Sequence, next: Next): Sequence {
  const last = next.top[tokensRead.tokens.length - 1]?.[0]?.[0] ?? '…';
  return {
    ...tokensRead,
    name: 'written',
    tokens: [...tokensRead.tokens.slice(1), { text: last, word: -1, special: true }],
    segments: tokensRead.segments && [
      ...tokensRead.segments.slice(1),
      tokensRead.segments[tokensRead.segments.length - 1],
    ],
    prompt: tokensRead.prompt === null ? null : Math.max(0, tokensRead.prompt - 1),
  };
}
