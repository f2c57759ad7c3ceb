// Names of sides, layers and heads. Numbers begin at 0, as in the models' own module names.

import type { LayerInfo, Side } from './capture-format';
import { inCell, isolate, number } from '../shared/readable-text';

const PLAIN_NAME = /^[A-Za-z_]{1,20}$/; // a module's own name: no path, no number

// "3", or "decoder 3" and "decoder 3 cross" where there is more than one kind. A single layer without
// a number, beside numbered layers, keeps its module name: "copy".
export function layerName(side: Side, index: number): string {
  const { name, stack, kind } = side.layers[index];
  const hasNumbers = side.layers.some((each) => /\d/.test(each.name));
  const isUnnumbered = (each: LayerInfo): boolean => hasNumbers && PLAIN_NAME.test(each.name);
  if (isUnnumbered(side.layers[index])) return name;
  const group = side.layers.filter(
    (each) => each.stack === stack && each.kind === kind && !isUnnumbered(each),
  );
  const position = group.indexOf(side.layers[index]);
  const numbers = ownNumbers(group.map((each) => each.name));
  const stacks = new Set(side.layers.map((each) => each.stack)).size;
  const parts = [
    stacks > 1 ? stack : '',
    numbers ? numbers[position] : String(position),
    kind === 'cross' ? 'cross' : '',
  ];
  return parts.filter(Boolean).join(' ');
}

const NUMBER = /^\d{1,6}$/;

// The numbers in the names of a model's layers, if one part of the names counts them: "3" and "7" where
// the layers between have no attention, and "3 mamba" and "3 self_attn" of two layers with one number.
function ownNumbers(names: string[]): string[] | null {
  const rows = names.map((name) => name.split('.').filter((part) => NUMBER.test(part)));
  const length = rows[0]?.length ?? 0;
  if (length === 0 || rows.some((row) => row.length !== length)) return null;
  const columns = rows[0].map((_, i) => rows.map((row) => row[i]));
  const varying = columns.filter((column) => new Set(column).size > 1);
  const [numbers] = varying.length > 0 ? varying : columns;
  if (varying.length > 1) return null;
  const labels = names.map((name, i) => {
    const last = name.split('.').at(-1) ?? '';
    const isShared = numbers.indexOf(numbers[i]) !== numbers.lastIndexOf(numbers[i]);
    return isShared && PLAIN_NAME.test(last) ? `${numbers[i]} ${last}` : numbers[i];
  });
  return new Set(labels).size === names.length ? labels : null;
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

// Labels come from a file, so invisible characters and text direction are made safe.
export const sideName = (side: Side): string => isolate(inCell(side.label));
