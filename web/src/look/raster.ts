// Values as colors. Below nothing a cell also has a minus sign, where there is room for one.

import { LEVELS } from '../shared/color';
import { EMPTY, type Theme } from '../shared/theme';
import type { Mark } from './view';

export type Raster = Extract<Mark, { kind: 'raster' }>;
export type Lines = Extract<Mark, { kind: 'lines' }>;

const ROOM = 6; // pixels of a cell that has room for a sign
const FAINT = 0.02; // too little for a sign
const MANY = 20000;

// Of each value its place on the ramp: `level` of all, in a loop without calls.
export function levels({ values, signed, rows, columns }: Raster): Uint8Array {
  const out = new Uint8Array(rows * columns);
  const top = LEVELS - 1;
  const [scale, shift] = signed ? [top / 2, top / 2 + 0.5] : [top, 0.5];
  for (let i = 0; i < out.length; i += 1) {
    const place = values[i] * scale + shift;
    if (place >= top) out[i] = top;
    else if (place >= 0) out[i] = place;
    else if (!(place < 0)) out[i] = EMPTY;
  }
  return out;
}

function ramp(raster: Raster, theme: Theme): Uint8Array {
  return raster.signed ? theme.diverging : theme.sequential;
}

export function pixels(raster: Raster, theme: Theme): Uint8ClampedArray<ArrayBuffer> {
  const palette = paletteOf(ramp(raster, theme));
  const places = levels(raster);
  const out = new Uint32Array(places.length);
  for (let i = 0; i < places.length; i += 1) out[i] = palette[places[i]];
  return new Uint8ClampedArray(out.buffer);
}

// Red, green, blue and opacity of each level as one number; what is empty is not seen at all.
const palettes = new WeakMap<Uint8Array, Uint32Array>();

function paletteOf(colors: Uint8Array): Uint32Array {
  const known = palettes.get(colors);
  if (known) return known;
  const palette = new Uint32Array(256);
  const bytes = new Uint8Array(palette.buffer);
  for (let i = 0; i < LEVELS; i += 1) {
    bytes.set(colors.subarray(3 * i, 3 * i + 3), 4 * i);
    bytes[4 * i + 3] = 255;
  }
  palettes.set(colors, palette);
  return palette;
}

// Pixels of a picture that is nowhere seen through.
export function opaque(rgb: Uint8Array): Uint8ClampedArray<ArrayBuffer> {
  const out = new Uint8ClampedArray((rgb.length / 3) * 4).fill(255);
  for (let i = 0; i < rgb.length; i += 1) out[i + Math.floor(i / 3)] = rgb[i];
  return out;
}

const STRONG = 0.55; // a color on which a sign must be that of the page

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
