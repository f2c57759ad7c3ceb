// All heads of a side in the order in which the overview shows them.

import type { Pattern, Side } from '../format';
import { layerName } from '../names';
import { count } from '../../shared/text';
import { capital, layerTitle } from './parts';

export interface HeadPlace {
  layer: number; // index in side.layers
  head: number; // index among the layer's kept heads; -1: not captured
  number: number; // among all heads of the layer
  map: number; // index of its small map; -1: none
  label: string;
  score: number | null; // of the label
}

export interface HeadGroup {
  section: string; // heading above this group and those that follow; "": the same as before
  title: string;
  detail: string;
  layer: number; // the layer that it stands for; -1: none
  places: HeadPlace[];
}

export const UNLABELED = 'no pattern stands out';
const MOST = 256; // heads of a layer; of more, those that were not captured are left out

export function byLayer(side: Side): HeadGroup[] {
  const first = firstMaps(side);
  const sections = new Map<string, HeadGroup[]>();
  side.layers.forEach((layer, index) => {
    const numbers = layer.all_heads <= MOST
      ? Array.from({ length: layer.all_heads }, (_, number) => number) : layer.heads;
    const places = numbers.map((number) => (
      placeOf(side, index, layer.heads.indexOf(number), number, first[index])));
    const title = layerTitle(side, index);
    const section = `${layer.stack}, ${layer.kind}-attention`;
    const before = sections.get(section) ?? [];
    const group = { section: '', title, detail: layer.name, layer: index, places };
    sections.set(section, [...before, group]);
  });
  const several = sections.size > 1;
  return [...sections].flatMap(([section, groups]) => groups.map((group, i) => (
    several && i === 0 ? { ...group, section: capital(section) } : group)));
}

// The pattern that most heads have comes first, heads without one last; the clearest head leads.
export function byPattern(side: Side): HeadGroup[] {
  const first = firstMaps(side);
  const groups = new Map<string, HeadPlace[]>();
  side.layers.forEach((layer, index) => layer.heads.forEach((number, head) => {
    const place = placeOf(side, index, head, number, first[index]);
    groups.set(place.label, [...(groups.get(place.label) ?? []), place]);
  }));
  const order = [...groups].sort(([label, places], [other, others]) => (
    Number(label === '') - Number(other === '') || others.length - places.length
      || (label < other ? -1 : 1)));
  return order.map(([label, places]) => ({
    section: '', title: capital(label === '' ? UNLABELED : label), layer: -1,
    detail: count(places.length, 'head'),
    places: places.sort((one, other) => (other.score ?? 0) - (one.score ?? 0)
      || one.layer - other.layer || one.number - other.number),
  }));
}

function firstMaps(side: Side): number[] {
  let maps = 0;
  return side.layers.map((layer) => {
    const first = maps;
    maps += layer.heads.length;
    return first;
  });
}

function placeOf(
  side: Side, layer: number, head: number, number: number, firstMap: number,
): HeadPlace {
  const pattern = head < 0 ? undefined : side.layers[layer].patterns[head];
  const label = pattern?.label ?? '';
  const score = label === '' ? null : pattern?.scores[label] ?? null;
  return { layer, head, number, map: head < 0 ? -1 : firstMap + head, label, score };
}

export function controlOf(side: Side, place: HeadPlace): Pattern | null {
  return side.control?.[place.layer]?.[place.head] ?? null;
}

// Names of all scores, in the order in which they first appear.
export function scoreNames(side: Side): string[] {
  const patterns = side.layers.flatMap((layer) => layer.patterns);
  return [...new Set(patterns.flatMap(({ scores }) => Object.keys(scores)))];
}

// "3", or "e3", "d3" and "c3" for layers of encoder, decoder and cross-attention.
export function layerMark(side: Side, index: number): string {
  const { stack, kind } = side.layers[index];
  const several = severalKinds(side);
  const letter = kind === 'cross' ? 'c' : stack.charAt(0);
  const name = layerName(side, index);
  const place = name.replace(/\D/g, '');
  return several && place ? letter + place : name;
}

export function severalKinds({ layers }: Side): boolean {
  return layers.some(({ stack, kind }) => stack !== layers[0].stack || kind === 'cross');
}
