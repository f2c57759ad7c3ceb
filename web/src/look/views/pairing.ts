// What the comparison shows: one map of each side, and their difference where tokens are the same.

import type { Opened } from '../capture';
import type { Choices } from '../choices';
import type { Side } from '../format';
import { headName } from '../names';
import { chosenHeads, prepare, type Item, type Seen } from '../prepare';
import { inCell } from '../../shared/text';
import { align, type Alignment } from './align';
import { corresponds, counterpart, otherSide } from './counterpart';
import { layerTitle } from './parts';

export interface Half {
  index: number; // of the side
  side: Side;
  layer: number;
  heads: number[];
}

export interface Pair {
  left: Half; // the side that was chosen
  right: Half;
  given: boolean; // the person chose the head of the other side
  corresponding: boolean; // layers and heads of both are the same ones
}

export interface Maps {
  left: Seen;
  right: Seen;
  leftValues: Float32Array;
  rightValues: Float32Array;
  queries: Alignment;
  keys: Alignment;
  difference: Float32Array; // right less left, (aligned queries, aligned keys)
}

export function pairOf(opened: Opened, choices: Choices): Pair {
  const index = choices.side;
  const other = otherSide(index);
  const [side, its] = [opened.header.sides[index], opened.header.sides[other]];
  const heads = chosenHeads(side.layers[choices.layer], choices);
  const corresponding = corresponds(side, its);
  const stands = heads.map((head) => counterpart(side, its, choices.layer, head));
  const { against } = choices;
  const layer = against ? against[0] : stands[0].layer;
  const all = heads.length === side.layers[choices.layer].heads.length;
  const theirs = against ? [against[1]]
    : all && heads.length > 1 ? its.layers[layer].heads.map((_, i) => i)
      : [...new Set(stands.map((each) => each.head))];
  return {
    left: { index, side, layer: choices.layer, heads },
    right: { index: other, side: its, layer, heads: theirs },
    given: against !== null, corresponding,
  };
}

export function mapsOf(opened: Opened, choices: Choices, pair: Pair): Maps {
  const seen = ({ index, layer, heads }: Half): Seen => (
    prepare(opened, { ...choices, heads }, index, layer));
  const [left, right] = [seen(pair.left), seen(pair.right)];
  const [leftValues, rightValues] = [left.mean(), right.mean()];
  const queries = itemsAligned(left.queries, right.queries);
  const keys = left.keys === left.queries && right.keys === right.queries
    ? queries : itemsAligned(left.keys, right.keys);
  return {
    left, right, leftValues, rightValues, queries, keys,
    difference: differenceOf(
      leftValues, left.keys.length, rightValues, right.keys.length, queries, keys),
  };
}

// Alignments of the last texts: hovering and choosing heads must not repeat the search.
const recent: { first: string; second: string; alignment: Alignment }[] = [];

function itemsAligned(first: Item[], second: Item[]): Alignment {
  const [one, other] = [signature(first), signature(second)];
  const known = recent.find((each) => each.first === one && each.second === other);
  if (known) return known.alignment;
  const alignment = align(first, second);
  recent.unshift({ first: one, second: other, alignment });
  recent.length = Math.min(recent.length, 4);
  return alignment;
}

const signature = (items: Item[]): string => JSON.stringify(items.map((item) => item.text));

const differences = new WeakMap<Float32Array, { other: Float32Array; difference: Float32Array }>();

export function differenceOf(
  left: Float32Array, leftColumns: number, right: Float32Array, rightColumns: number,
  queries: Alignment, keys: Alignment,
): Float32Array {
  const known = differences.get(left);
  if (known?.other === right) return known.difference;
  const columns = keys.left.length;
  const difference = new Float32Array(queries.left.length * columns);
  const same = queries.same && keys.same;
  for (let i = 0; same && i < difference.length; i++) difference[i] = right[i] - left[i];
  for (let i = 0; !same && i < queries.left.length; i++) {
    const a = left.subarray(queries.left[i] * leftColumns);
    const b = right.subarray(queries.right[i] * rightColumns);
    const at = i * columns;
    for (let j = 0; j < columns; j++) difference[at + j] = b[keys.right[j]] - a[keys.left[j]];
  }
  differences.set(left, { other: right, difference });
  return difference;
}

// "layer 3, head 5", "decoder 3 cross, mean of 12 heads"
export function halfName({ side, layer, heads }: Half): string {
  const info = side.layers[layer];
  const which = heads.length === 1 ? `head ${headName(info, heads[0])}`
    : `mean of ${heads.length} heads`;
  return `${layerTitle(side, layer).toLowerCase()}, ${which}`;
}

export function labelOf(side: Side, layer: number, head: number): string {
  return inCell(side.layers[layer].patterns[head]?.label ?? '') || 'no pattern';
}
