// Which head of the other side stands for a head of this one.

import type { LayerInfo, Side } from '../format';

export interface Counterpart {
  layer: number;
  head: number;
}

export const otherSide = (side: number): number => (side === 0 ? 1 : 0);

// Layers and kept heads correspond one to one: the same model, or one of the same shape.
export function corresponds(side: Side, other: Side): boolean {
  return side.layers.length === other.layers.length
    && side.layers.every((layer, i) => {
      const its = other.layers[i];
      return layer.kind === its.kind && layer.stack === its.stack
        && layer.heads.length === its.heads.length
        && layer.heads.every((head, j) => head === its.heads[j]);
    });
}

// The head that stands for this one: itself where the sides correspond, else the one at the same
// share of the depth, among layers of the same kind if there are any.
export function counterpart(side: Side, other: Side, layer: number, head: number): Counterpart {
  if (corresponds(side, other)) return { layer, head };
  const mine = side.layers[layer];
  const like = (its: LayerInfo): boolean => its.kind === mine.kind && its.stack === mine.stack;
  const ours = indices(side.layers, like);
  const theirs = indices(other.layers, like);
  const places = theirs.length > 0 ? theirs : other.layers.map((_, i) => i);
  const otherLayer = places[relative(ours.indexOf(layer), ours.length, places.length)];
  const otherHeads = other.layers[otherLayer].heads.length;
  return { layer: otherLayer, head: relative(head, mine.heads.length, otherHeads) };
}

function indices(layers: LayerInfo[], like: (layer: LayerInfo) => boolean): number[] {
  return layers.flatMap((layer, i) => (like(layer) ? [i] : []));
}

function relative(index: number, of: number, among: number): number {
  return of <= 1 ? 0 : Math.round((index / (of - 1)) * (among - 1));
}
