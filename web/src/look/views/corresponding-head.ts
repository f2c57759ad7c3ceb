// Which head of the other side corresponds to a head of this side.

import type { LayerInfo, Side } from '../capture-format';

export interface HeadIndex {
  layer: number;
  head: number;
}

export const otherSide = (side: number): number => (side === 0 ? 1 : 0);

// Whether layers and captured heads correspond one to one: the same model, or the same shape.
export function haveSameShape(side: Side, other: Side): boolean {
  return side.layers.length === other.layers.length
    && side.layers.every((layer, i) => {
      const otherLayer = other.layers[i];
      return layer.kind === otherLayer.kind && layer.stack === otherLayer.stack
        && layer.heads.length === otherLayer.heads.length
        && layer.heads.every((head, j) => head === otherLayer.heads[j]);
    });
}

// The corresponding head of the other side: the same indices if the sides correspond, else the head
// at the same relative depth, among layers of the same kind if there are any.
export function correspondingHead(side: Side, other: Side, layer: number, head: number): HeadIndex {
  if (haveSameShape(side, other)) return { layer, head };
  const info = side.layers[layer];
  const isSameKind = (otherLayerInfo: LayerInfo): boolean => otherLayerInfo.kind === info.kind
    && otherLayerInfo.stack === info.stack;
  const sameKindLayers = indicesWhere(side.layers, isSameKind);
  const otherSameKindLayers = indicesWhere(other.layers, isSameKind);
  const candidates = otherSameKindLayers.length > 0 ? otherSameKindLayers
    : other.layers.map((_, i) => i);
  const otherLayer = candidates[scaleIndex(sameKindLayers.indexOf(layer), sameKindLayers.length,
    candidates.length)];
  const otherHeads = other.layers[otherLayer].heads.length;
  return { layer: otherLayer, head: scaleIndex(head, info.heads.length, otherHeads) };
}

function indicesWhere(layers: LayerInfo[], condition: (layer: LayerInfo) => boolean): number[] {
  return layers.flatMap((layer, i) => (condition(layer) ? [i] : []));
}

function scaleIndex(index: number, length: number, otherLength: number): number {
  return length <= 1 ? 0 : Math.round((index / (length - 1)) * (otherLength - 1));
}
