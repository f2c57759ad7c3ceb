// Sentences of the compare view: which tokens and heads it compares, and why.

import type { Capture } from '../capture';
import { sideName } from '../names';
import { count, number, quoted, wholePercent } from '../../shared/readable-text';
import type { Alignment } from './align-tokens';
import { changeBetween } from './head-change';
import { describeHeads, type ComparedMaps, type ComparedPair } from './compare-data';
import { distinctPercents } from './effect-data';
import { capitalize } from './marks';

export function describeAlignment({ left, right, queries, keys }: ComparedMaps): string {
  if (queries.same && keys.same) return 'Both sides have the same tokens.';
  const countText = (name: string, { left: common }: Alignment, first: number,
    second: number): string => (
    `${count(common.length, name)} (of ${first} and ${second})`);
  const counts = left.layer.queries === left.layer.keys
    ? countText('token', queries, left.queries.length, right.queries.length)
    : `${countText('query token', queries, left.queries.length, right.queries.length)} and ${
      countText('key token', keys, left.keys.length, right.keys.length)}`;
  const hasCommon = queries.left.length > 0 && keys.left.length > 0;
  const consequence = hasCommon ? 'only these are in the difference'
    : 'so there is no difference to show';
  const limitNote = queries.complete && keys.complete ? ''
    : ' The texts are too long to align: only their common beginning and end count.';
  return `The tokens differ. Common to both sides, ignoring case and word marks: ${
    counts}; ${consequence}.${limitNote}`;
}

export function describeCorrespondence({ left, right, chosenByUser,
  sameShape }: ComparedPair): string {
  if (chosenByUser) return `${capitalize(describeHeads(left))} is compared with ${describeHeads(right)}, as you chose.`;
  if (sameShape) return '';
  const layerCounts = [left, right].map(({ side }) => count(side.layers.length, 'layer'));
  return `The models have different shapes: ${describeHeads(left)} (of ${layerCounts[0]}) is compared with ${
    describeHeads(right)} (of ${layerCounts[1]}), at the same relative depth; select another one below.`;
}

// The change of one head, from all its weights; null for the mean of several heads.
export function changeOfPair(capture: Capture, { left, right }: ComparedPair): number | null {
  if (left.heads.length > 1 || right.heads.length > 1) return null;
  return changeBetween(capture, left.index, left.layer, left.heads[0], right.layer, right.heads[0]);
}

export const describeChange = (change: number | null): string => (
  change === null ? '' : `Change of this head, from all its weights: ${number(change, 3)}.`);

// What both sides predict after the last token. Weights do not show it: without a head of the last
// layer only the prediction changes.
export function describePredictions({ left, right }: ComparedPair): string {
  const [one, other] = [left, right].map(({ side }) => side.next?.top.at(-1)?.[0]);
  if (!one || !other) return '';
  const shares = one[0] === other[0] ? distinctPercents(one[1], other[1])
    : [wholePercent(one[1]), wholePercent(other[1])];
  return `After the last token, ${sideName(left.side)} predicts ${quoted(one[0], 16)} (${shares[0]}), ${
    sideName(right.side)} ${quoted(other[0], 16)} (${shares[1]}).`;
}

// Explains why this head is displayed by default.
export function explainDefaultHead(exact: boolean): string {
  const source = exact ? '' : ', by the small maps';
  return `This head changed most in its layer${source}; select another head, or the mean.`;
}
