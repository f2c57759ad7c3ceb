// Groups the heads of a side by layer or by pattern, for the model view.

import type { Pattern, Side } from '../capture-format';
import { layerName } from '../names';
import { count } from '../../shared/readable-text';
import { capitalize, layerTitle } from './marks';

export interface HeadEntry {
  layer: number; // index in side.layers
  head: number; // index among the layer's captured heads; -1 if not captured
  number: number; // number among all heads of the layer
  map: number; // index of its small map; -1 if there is none
  label: string;
  score: number | null; // of the label
}

export interface HeadGroup {
  section: string; // heading above this group and the following ones; empty if it does not change
  title: string;
  detail: string;
  layer: number; // layer of the group; -1 if grouped by pattern
  entries: HeadEntry[];
}

export const NO_PATTERN = 'no pattern stands out';
const MAX_LISTED_HEADS = 256; // layers with more heads leave out those that were not captured

export function groupByLayer(side: Side): HeadGroup[] {
  const first = firstMapIndices(side);
  const sections = new Map<string, HeadGroup[]>();
  side.layers.forEach((layer, index) => {
    const numbers = layer.all_heads <= MAX_LISTED_HEADS
      ? Array.from({ length: layer.all_heads }, (_, number) => number) : layer.heads;
    const entries = numbers.map((number) => (
      makeEntry(side, index, layer.heads.indexOf(number), number, first[index])));
    const title = layerTitle(side, index);
    const section = `${layer.stack}, ${layer.kind}-attention`;
    const previous = sections.get(section) ?? [];
    const group = { section: '', title, detail: layer.name, layer: index, entries };
    sections.set(section, [...previous, group]);
  });
  const hasSections = sections.size > 1;
  return [...sections].flatMap(([section, groups]) => groups.map((group, i) => (
    hasSections && i === 0 ? { ...group, section: capitalize(section) } : group)));
}

// The most common pattern comes first, heads without a pattern last; the highest score leads.
export function groupByPattern(side: Side): HeadGroup[] {
  const first = firstMapIndices(side);
  const groups = new Map<string, HeadEntry[]>();
  side.layers.forEach((layer, index) => layer.heads.forEach((number, head) => {
    const entry = makeEntry(side, index, head, number, first[index]);
    groups.set(entry.label, [...(groups.get(entry.label) ?? []), entry]);
  }));
  const order = [...groups].sort(([label, entries], [other, otherEntries]) => (
    Number(label === '') - Number(other === '') || otherEntries.length - entries.length
      || (label < other ? -1 : 1)));
  return order.map(([label, entries]) => ({
    section: '', title: capitalize(label === '' ? NO_PATTERN : label), layer: -1,
    detail: count(entries.length, 'head'),
    entries: entries.sort((one, other) => (other.score ?? 0) - (one.score ?? 0)
      || one.layer - other.layer || one.number - other.number),
  }));
}

function firstMapIndices(side: Side): number[] {
  let maps = 0;
  return side.layers.map((layer) => {
    const first = maps;
    maps += layer.heads.length;
    return first;
  });
}

function makeEntry(
  side: Side, layer: number, head: number, number: number, firstMap: number,
): HeadEntry {
  const pattern = head < 0 ? undefined : side.layers[layer].patterns[head];
  const label = pattern?.label ?? '';
  const score = label === '' ? null : pattern?.scores[label] ?? null;
  return { layer, head, number, map: head < 0 ? -1 : firstMap + head, label, score };
}

export function untrainedPattern(side: Side, entry: HeadEntry): Pattern | null {
  return side.control?.[entry.layer]?.[entry.head] ?? null;
}

// Names of all scores, in the order in which they first appear.
export function scoreNames(side: Side): string[] {
  const patterns = side.layers.flatMap((layer) => layer.patterns);
  return [...new Set(patterns.flatMap(({ scores }) => Object.keys(scores)))];
}

// "3", or "e3", "d3" and "c3" for layers of encoder, decoder and cross-attention.
export function shortLayerName(side: Side, index: number): string {
  const { stack, kind } = side.layers[index];
  const hasKinds = hasSeveralKinds(side);
  const letter = kind === 'cross' ? 'c' : stack.charAt(0);
  const name = layerName(side, index);
  const digits = name.replace(/\D/g, '');
  return hasKinds && digits ? letter + digits : name;
}

export function hasSeveralKinds({ layers }: Side): boolean {
  return layers.some(({ stack, kind }) => stack !== layers[0].stack || kind === 'cross');
}
