// Data of the compare view: one map of each side, and their difference for common tokens.

import type { Capture } from '../capture';
import type { Choices } from '../choices';
import type { Side } from '../capture-format';
import { headName } from '../names';
import { selectedHeads, prepareWeights, type Item, type PreparedWeights } from '../prepare-weights';
import { inCell } from '../../shared/readable-text';
import { alignTokens, type Alignment } from './align-tokens';
import { haveSameShape, correspondingHead, otherSide } from './corresponding-head';
import { layerTitle } from './marks';

export interface ComparedSide {
  index: number; // of the side in the header
  side: Side;
  layer: number;
  heads: number[];
}

export interface ComparedPair {
  left: ComparedSide; // the selected side
  right: ComparedSide;
  chosenByUser: boolean; // the user selected the head of the other side
  sameShape: boolean; // both sides have the same layers and heads
}

export interface ComparedMaps {
  left: PreparedWeights;
  right: PreparedWeights;
  leftValues: Float32Array;
  rightValues: Float32Array;
  queries: Alignment;
  keys: Alignment;
  difference: Float32Array; // right minus left, (aligned queries, aligned keys)
}

export function makePair(capture: Capture, choices: Choices): ComparedPair {
  const index = choices.side;
  const other = otherSide(index);
  const [side, otherInfo] = [capture.header.sides[index], capture.header.sides[other]];
  const heads = selectedHeads(side.layers[choices.layer], choices);
  const sameShape = haveSameShape(side, otherInfo);
  const counterparts = heads.map((head) => correspondingHead(side, otherInfo, choices.layer, head));
  const { against } = choices;
  const layer = against ? against[0] : counterparts[0].layer;
  const allHeads = heads.length === side.layers[choices.layer].heads.length;
  const otherHeads = against ? [against[1]]
    : allHeads && heads.length > 1 ? otherInfo.layers[layer].heads.map((_, i) => i)
      : [...new Set(counterparts.map((each) => each.head))];
  return {
    left: { index, side, layer: choices.layer, heads },
    right: { index: other, side: otherInfo, layer, heads: otherHeads },
    chosenByUser: against !== null, sameShape,
  };
}

export function makeMaps(capture: Capture, choices: Choices, pair: ComparedPair): ComparedMaps {
  const prepareSide = ({ index, layer, heads }: ComparedSide): PreparedWeights => (
    prepareWeights(capture, { ...choices, heads }, index, layer));
  const [left, right] = [prepareSide(pair.left), prepareSide(pair.right)];
  const [leftValues, rightValues] = [left.mean(), right.mean()];
  const queries = cachedAlignment(left.queries, right.queries);
  const keys = left.keys === left.queries && right.keys === right.queries
    ? queries : cachedAlignment(left.keys, right.keys);
  return {
    left, right, leftValues, rightValues, queries, keys,
    difference: subtractMaps(
      leftValues, left.keys.length, rightValues, right.keys.length, queries, keys),
  };
}

// Caches the last alignments, because hovering and selecting heads must not repeat the search.
const recent: { first: string; second: string; alignment: Alignment }[] = [];

function cachedAlignment(first: Item[], second: Item[]): Alignment {
  const [firstKey, secondKey] = [textKey(first), textKey(second)];
  const cached = recent.find((each) => each.first === firstKey && each.second === secondKey);
  if (cached) return cached.alignment;
  const alignment = alignTokens(first, second);
  recent.unshift({ first: firstKey, second: secondKey, alignment });
  recent.length = Math.min(recent.length, 4);
  return alignment;
}

const textKey = (items: Item[]): string => JSON.stringify(items.map((item) => item.text));

const differences = new WeakMap<Float32Array, { other: Float32Array; difference: Float32Array }>();

export function subtractMaps(
  left: Float32Array, leftColumns: number, right: Float32Array, rightColumns: number,
  queries: Alignment, keys: Alignment,
): Float32Array {
  const cached = differences.get(left);
  if (cached?.other === right) return cached.difference;
  const columns = keys.left.length;
  const difference = new Float32Array(queries.left.length * columns);
  const same = queries.same && keys.same;
  for (let i = 0; same && i < difference.length; i++) difference[i] = right[i] - left[i];
  for (let i = 0; !same && i < queries.left.length; i++) {
    const a = left.subarray(queries.left[i] * leftColumns);
    const b = right.subarray(queries.right[i] * rightColumns);
    const row = i * columns;
    for (let j = 0; j < columns; j++) difference[row + j] = b[keys.right[j]] - a[keys.left[j]];
  }
  differences.set(left, { other: right, difference });
  return difference;
}

// "layer 3, head 5", "decoder 3 cross, mean of 12 heads"
export function describeHeads({ side, layer, heads }: ComparedSide): string {
  const info = side.layers[layer];
  const headText = heads.length === 1 ? `head ${headName(info, heads[0])}`
    : `mean of ${heads.length} heads`;
  return `${layerTitle(side, layer).toLowerCase()}, ${headText}`;
}

export function patternLabel(side: Side, layer: number, head: number): string {
  return inCell(side.layers[layer].patterns[head]?.label ?? '') || 'no pattern';
}
