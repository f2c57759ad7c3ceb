// What layers and heads are called. Numbers begin at 0, as in the models' own names.

import type { LayerInfo, Side } from './format';
import { number } from '../shared/text';

const PLAIN = /^[A-Za-z_]{1,20}$/; // a module's own name: no path, no number

// "3", or "decoder 3" and "decoder 3 cross" where there is more than one kind. One that stands
// alone beside layers with numbers has its own name: "copy".
export function layerName(side: Side, index: number): string {
  const { name, stack, kind } = side.layers[index];
  const counted = side.layers.some((each) => /\d/.test(each.name));
  const alone = (each: LayerInfo): boolean => counted && PLAIN.test(each.name);
  if (alone(side.layers[index])) return name;
  const same = side.layers
    .slice(0, index)
    .filter((each) => each.stack === stack && each.kind === kind && !alone(each)).length;
  const stacks = new Set(side.layers.map((each) => each.stack)).size;
  const words = [stacks > 1 ? stack : '', String(same), kind === 'cross' ? 'cross' : ''];
  return words.filter(Boolean).join(' ');
}

// For a title: "Layer 3", or "Decoder 3 cross".
export function layerTitle(side: Side, index: number): string {
  const name = layerName(side, index);
  return /^\d/.test(name) ? `Layer ${name}` : name[0].toUpperCase() + name.slice(1);
}

export function headName(layer: LayerInfo, head: number): string {
  return String(layer.heads[head] ?? head);
}

// "head 3: previous token 0.93"
export function headTitle(layer: LayerInfo, head: number): string {
  const pattern = layer.patterns[head];
  const score = pattern?.scores[pattern.label];
  const label = pattern?.label
    ? `: ${pattern.label}${score === undefined ? '' : ` ${number(score, 2)}`}`
    : '';
  return `head ${headName(layer, head)}${label}`;
}
