// Values as colours. Below nothing a cell also has a minus sign, where there is room for one.

import { EMPTY, level, type Theme } from './theme';
import type { Mark } from './view';

export type Raster = Extract<Mark, { kind: 'raster' }>;
export type Lines = Extract<Mark, { kind: 'lines' }>;

const ROOM = 6; // pixels of a cell that has room for a sign
const FAINT = 0.02; // too little for a sign
const MANY = 20000;

export function levels(raster: Raster): Uint8Array {
  const out = new Uint8Array(raster.rows * raster.columns);
  for (let i = 0; i < out.length; i += 1) out[i] = level(raster.values[i], raster.signed);
  return out;
}

export function ramp(raster: Raster, theme: Theme): Uint8Array {
  return raster.signed ? theme.diverging : theme.sequential;
}

export function pixels(raster: Raster, theme: Theme): Uint8ClampedArray<ArrayBuffer> {
  const colours = ramp(raster, theme);
  const places = levels(raster);
  const out = new Uint8ClampedArray(places.length * 4);
  for (let i = 0; i < places.length; i += 1) {
    if (places[i] === EMPTY) continue;
    const from = places[i] * 3;
    out[4 * i] = colours[from];
    out[4 * i + 1] = colours[from + 1];
    out[4 * i + 2] = colours[from + 2];
    out[4 * i + 3] = 255;
  }
  return out;
}

const STRONG = 0.55; // a colour on which a sign must be that of the page

// Minus signs, as lines.
export function signs(raster: Raster): Lines[] {
  const [w, h] = [raster.w / raster.columns, raster.h / raster.rows];
  if (!raster.signed || w < ROOM || h < ROOM || raster.values.length > MANY) return [];
  const [weak, strong]: number[][] = [[], []];
  for (let i = 0; i < raster.rows * raster.columns; i += 1) {
    if (!(raster.values[i] < -FAINT)) continue;
    const x = raster.x + ((i % raster.columns) + 0.5) * w;
    const y = raster.y + (Math.floor(i / raster.columns) + 0.5) * h;
    const half = Math.min(w, h, 20) * 0.25;
    (raster.values[i] < -STRONG ? strong : weak).push(x - half, y, x + half, y);
  }
  return [drawn(weak, 'ink'), drawn(strong, 'page')].filter((each) => each.points.length > 0);
}

function drawn(points: number[], stroke: string): Lines {
  const size = points.length / 4;
  return {
    kind: 'lines',
    points: Float32Array.from(points),
    opacities: new Float32Array(size).fill(0.9),
    widths: new Float32Array(size).fill(1.25),
    stroke,
  };
}

export interface Batch {
  opacity: number;
  width: number;
  lines: number[]; // places
}

const STEPS = 32; // of opacity

// Lines of nearly the same look are stroked together: 20,000 take a few milliseconds.
const batched = new WeakMap<Lines, Batch[]>();

export function batches(lines: Lines): Batch[] {
  let known = batched.get(lines);
  if (!known) batched.set(lines, (known = gather(lines)));
  return known;
}

function gather(lines: Lines): Batch[] {
  const found = new Map<number, Batch>();
  for (let i = 0; i < lines.opacities.length; i += 1) {
    const faint = Math.min(STEPS, Math.max(1, Math.round(lines.opacities[i] * STEPS)));
    const wide = Math.max(1, Math.round(lines.widths[i] * 4));
    const key = faint * 4096 + wide;
    const batch = found.get(key);
    if (batch) batch.lines.push(i);
    else found.set(key, { opacity: faint / STEPS, width: wide / 4, lines: [i] });
  }
  // strong ones on top
  return [...found.values()].sort((one, other) => one.opacity - other.opacity);
}
