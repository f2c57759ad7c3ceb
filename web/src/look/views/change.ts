// How much each head changed between the two sides of a capture, and which head stands for which.

import type { Opened, Weights } from '../capture';
import type { Need } from '../view';
import { align, type Alignment } from './align';
import { counterpart, otherSide } from './counterpart';

export interface Change {
  layer: number; // of the side that is looked from
  head: number; // index among the layer's kept heads
  otherLayer: number;
  otherHead: number;
  change: number; // 0: the same, 1: nothing in common
}

export interface Ranking {
  changes: Change[]; // largest first
  exact: boolean; // from the weights, not from the small maps
  how: string; // one sentence
}

// Weights of both sides that may be opened only to rank heads, and cells read to rank all of them.
const MOST_OPENED = 10_000_000;
const MOST_READ = 1_600_000; // about 10 ms

// Mean over rows of the total variation distance, where rows sum to 1. Divided by what both rows
// hold, it stays between 0 and 1 for rows that do not. What stands at tokens of one side only is
// counted as one further key, so that a head that moved there has changed.
export function distance(
  first: Weights, firstHead: number, second: Weights, secondHead: number,
  queries: Alignment, keys: Alignment, mostRows = Infinity,
): number {
  const rows = queries.left.length;
  const read = Math.min(rows, Math.max(1, Math.floor(mostRows)));
  const whole = read === rows; // then heads are decoded as a whole, and kept for drawing
  const mine = rowsOf(first, firstHead, whole);
  const its = rowsOf(second, secondHead, whole);
  let total = 0;
  for (let n = 0; n < read; n++) {
    const at = Math.floor(((n + 0.5) * rows) / read);
    total += rowDistance(mine(queries.left[at]), its(queries.right[at]), keys);
  }
  return read === 0 ? 0 : total / read;
}

function rowsOf(weights: Weights, head: number, whole: boolean): (query: number) => Float32Array {
  if (!whole) return (query) => weights.row(head, query);
  const all = weights.head(head);
  return (query) => all.subarray(query * weights.keys, (query + 1) * weights.keys);
}

// The loop that all of it waits for: plain numbers, and nothing made on the way.
function rowDistance(a: Float32Array, b: Float32Array, { left, right, same }: Alignment): number {
  let apart = 0;
  let held = 0;
  for (let i = 0; i < left.length; i++) {
    const p = same ? a[i] : a[left[i]];
    const q = same ? b[i] : b[right[i]];
    apart += p < q ? q - p : p - q;
    held += (p < 0 ? -p : p) + (q < 0 ? -q : q);
  }
  if (left.length < a.length || right.length < b.length) {
    const [restA, restB] = [alone(a, left), alone(b, right)];
    apart += Math.abs(restA - restB);
    held += Math.abs(restA) + Math.abs(restB);
  }
  return held > 0 ? Math.min(1, apart / held) : 0;
}

// What stands at places that are not among these, which rise.
function alone(values: Float32Array, common: Int32Array): number {
  let [total, next] = [0, 0];
  for (let i = 0; i < values.length; i++) {
    if (common[next] === i) next++;
    else total += values[i];
  }
  return total;
}

// Small maps of one side, each row a distribution, stretched to a common size.
interface Maps {
  size: number;
  starts: number[]; // of each layer, in maps
  rows: Float32Array;
}

export function distributions(
  values: Float32Array, maps: number, from: number, to: number,
): Float32Array {
  const rows = new Float32Array(maps * to * to);
  const places = Int32Array.from({ length: to }, (_, i) => Math.floor((i * from) / to));
  for (let row = 0; row < maps * to; row++) {
    const start = (Math.floor(row / to) * from + places[row % to]) * from;
    let held = 0;
    for (let j = 0; j < to; j++) {
      const value = values[start + places[j]];
      held += value < 0 ? -value : value;
    }
    if (!(held > 0)) continue;
    for (let j = 0; j < to; j++) rows[row * to + j] = values[start + places[j]] / held;
  }
  return rows;
}

// Mean total variation distance of the rows of two small maps. Two empty rows are no row.
export function smallDistance(
  first: Float32Array, firstMap: number, second: Float32Array, secondMap: number, size: number,
): number {
  let [total, rows] = [0, 0];
  for (let i = 0; i < size; i++) {
    const a = (firstMap * size + i) * size;
    const b = (secondMap * size + i) * size;
    let apart = 0;
    let some = false;
    for (let j = 0; j < size; j++) {
      const p = first[a + j];
      const q = second[b + j];
      apart += p < q ? q - p : p - q;
      some ||= p !== 0 || q !== 0;
    }
    if (!some) continue;
    total += Math.min(1, apart / 2);
    rows++;
  }
  return rows === 0 ? 0 : total / rows;
}

// What a ranking needs: the small maps, and the weights too where that is cheap or asked for.
export function rankingNeeds(opened: Opened, side: number, exact = false): Need[] {
  const other = otherSide(side);
  const needs: Need[] = [{ side, small: true }, { side: other, small: true }];
  return exact || affordable(opened) ? [...needs, ...exactNeeds(opened, side)] : needs;
}

function affordable(opened: Opened): boolean {
  let cells = 0;
  for (const side of opened.header.sides) {
    for (const layer of side.layers) cells += layer.weights.shape.reduce((a, b) => a * b, 1);
  }
  return cells <= MOST_OPENED;
}

function exactNeeds(opened: Opened, side: number): Need[] {
  const sides = opened.header.sides;
  const layers = sides[side].layers.map((_, layer) => layer);
  const theirs = new Set(layers.map((layer) =>
    counterpart(sides[side], sides[otherSide(side)], layer, 0).layer));
  const weights = (at: number, layer: number): Need => ({ side: at, layer, parts: ['weights'] });
  return [...layers.map((layer) => weights(side, layer)),
    ...[...theirs].map((layer) => weights(otherSide(side), layer))];
}

const alignments = new WeakMap<Opened, Map<string, Alignment>>();
const rankings = new WeakMap<Opened, Map<string, Ranking>>();

function remembered<T>(memory: WeakMap<Opened, Map<string, T>>, opened: Opened, key: string,
  make: () => T): T {
  let known = memory.get(opened);
  if (!known) memory.set(opened, (known = new Map()));
  const found = known.get(key);
  if (found !== undefined) return found;
  const made = make();
  known.set(key, made);
  return made;
}

// Tokens of a sequence of this side that stand in a sequence of the other one.
export function aligned(opened: Opened, side: number, sequence: number, theirs: number): Alignment {
  const other = otherSide(side);
  return remembered(alignments, opened, `${side} ${sequence} ${theirs}`, () =>
    align(opened.header.sides[side].sequences[sequence].tokens,
      opened.header.sides[other].sequences[theirs].tokens));
}

// All heads of a side, those that changed most first. Exact once every layer is open: half of it
// exact would put the layers that were visited on top, since small maps hide some of the change.
export function ranking(opened: Opened, side: number): Ranking {
  const exact = rankings.get(opened)?.has(`${side} true`) || opened.ready(exactNeeds(opened, side));
  return remembered(rankings, opened, `${side} ${exact}`, () => {
    const mostRows = exact ? rowsToRead(opened, side) : 0;
    const changes = exact ? exactChanges(opened, side, mostRows) : smallChanges(opened, side);
    changes.sort((a, b) => b.change - a.change || a.layer - b.layer || a.head - b.head);
    return { changes, exact, how: explained(opened, side, exact, mostRows) };
  });
}

function everyHead(opened: Opened, side: number): Change[] {
  const mine = opened.header.sides[side];
  const other = opened.header.sides[otherSide(side)];
  return mine.layers.flatMap((info, layer) => info.heads.map((_, head) => {
    const its = counterpart(mine, other, layer, head);
    return { layer, head, otherLayer: its.layer, otherHead: its.head, change: 0 };
  }));
}

function rowsToRead(opened: Opened, side: number): number {
  const perRow = opened.header.sides[side].layers.reduce((cells, layer) =>
    cells + 2 * layer.weights.shape[0] * layer.weights.shape[2], 0);
  return Math.max(8, Math.floor(MOST_READ / Math.max(1, perRow)));
}

function exactChanges(opened: Opened, side: number, mostRows: number): Change[] {
  return everyHead(opened, side).map((at) => ({
    ...at, change: changeOf(opened, side, at.layer, at.head, at.otherLayer, at.otherHead, mostRows),
  }));
}

// The change between two heads whose layers are open.
export function changeOf(opened: Opened, side: number, layer: number, head: number,
  otherLayer: number, otherHead: number, mostRows = Infinity): number {
  const mine = opened.weights(side, layer);
  const its = opened.weights(otherSide(side), otherLayer);
  const queries = aligned(opened, side, mine.layer.queries, its.layer.queries);
  const keys = aligned(opened, side, mine.layer.keys, its.layer.keys);
  return distance(mine, head, its, otherHead, queries, keys, mostRows);
}

function smallMaps(opened: Opened, side: number): Maps {
  const sizes = opened.header.sides.map((each) => each.small.shape[1]);
  const size = Math.max(...sizes);
  const { small, layers } = opened.header.sides[side];
  let maps = 0;
  const starts = layers.map((layer) => {
    maps += layer.heads.length;
    return maps - layer.heads.length;
  });
  const roots = opened.values(small); // times 255
  const shares = new Float32Array(roots.length);
  for (let i = 0; i < shares.length; i++) shares[i] = (roots[i] / 255) * (roots[i] / 255);
  const rows = distributions(shares, maps, sizes[side], size);
  return { size, starts, rows };
}

const keptMaps = new WeakMap<Opened, Map<string, Maps>>();

const mapsOf = (opened: Opened, side: number): Maps =>
  remembered(keptMaps, opened, String(side), () => smallMaps(opened, side));

function smallChanges(opened: Opened, side: number): Change[] {
  const [mine, its] = [mapsOf(opened, side), mapsOf(opened, otherSide(side))];
  return everyHead(opened, side).map((at) => ({
    ...at,
    change: smallDistance(mine.rows, mine.starts[at.layer] + at.head,
      its.rows, its.starts[at.otherLayer] + at.otherHead, mine.size),
  }));
}

// How far every head of the other side is from this one, from the small maps: one list per layer.
export function likeness(opened: Opened, side: number, layer: number, head: number): number[][] {
  const [mine, its] = [mapsOf(opened, side), mapsOf(opened, otherSide(side))];
  return opened.header.sides[otherSide(side)].layers.map((info, i) => info.heads.map((_, j) =>
    smallDistance(mine.rows, mine.starts[layer] + head, its.rows, its.starts[i] + j, mine.size)));
}

function explained(opened: Opened, side: number, exact: boolean, mostRows: number): string {
  if (!exact) {
    return 'Change is estimated from the small maps (position by position), because opening all '
      + 'weights takes a while; that of the head which is shown is exact.';
  }
  const longest = Math.max(0, ...opened.header.sides[side].layers.map((layer) =>
    layer.weights.shape[1]));
  const rows = longest > mostRows ? ` of ${mostRows} queries, evenly spread` : '';
  return `Change is the mean total variation distance of rows, from the weights${rows}: `
    + '0 the same, 1 nothing in common.';
}
