// Sentences of the comparison: which tokens and heads stand beside each other, and by what right.

import type { Opened } from '../capture';
import { count, number } from '../../shared/text';
import type { Alignment } from './align';
import { changeOf } from './change';
import { halfName, type Maps, type Pair } from './pairing';
import { capital } from './parts';

export function alignmentSaid({ left, right, queries, keys }: Maps): string {
  if (queries.same && keys.same) return 'Both sides have the same tokens.';
  const one = (name: string, { left: all }: Alignment, first: number, second: number): string => (
    `${count(all.length, name)} (of ${first} and ${second})`);
  const said = left.layer.queries === left.layer.keys
    ? one('token', queries, left.queries.length, right.queries.length)
    : `${one('query token', queries, left.queries.length, right.queries.length)} and ${
      one('key token', keys, left.keys.length, right.keys.length)}`;
  const some = queries.left.length > 0 && keys.left.length > 0;
  const rest = some ? 'only these are in the difference' : 'so there is no difference to show';
  const cut = queries.complete && keys.complete ? ''
    : ' The texts are too long to search: only their common beginning and end count.';
  return `The tokens differ. The same on both sides, in order, case and word marks aside: ${
    said}; ${rest}.${cut}`;
}

export function correspondenceSaid({ left, right, given, corresponding }: Pair): string {
  if (given) return `${capital(halfName(left))} stands beside ${halfName(right)}, as chosen.`;
  if (corresponding) return '';
  const of = [left, right].map(({ side }) => count(side.layers.length, 'layer'));
  return `The models have different shapes: ${halfName(left)} (of ${of[0]}) stands beside ${
    halfName(right)} (of ${of[1]}), at the same share of the depth; choose another one below.`;
}

// Of one head, from all its weights; null for the mean of several.
export function pairChange(opened: Opened, { left, right }: Pair): number | null {
  if (left.heads.length > 1 || right.heads.length > 1) return null;
  return changeOf(opened, left.index, left.layer, left.heads[0], right.layer, right.heads[0]);
}

export const changeSaid = (change: number | null): string => (
  change === null ? '' : `Change of this head, from all its weights: ${number(change, 3)}.`);

// Why a head is shown that nobody chose.
export function usualSaid(exact: boolean): string {
  const by = exact ? '' : ', by the small maps';
  return `This head changed most in its layer${by}; choose another, or the mean.`;
}
