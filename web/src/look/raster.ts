// Converts values to colors. A negative cell also gets a minus sign, if it is large enough.

import { LEVELS } from '../shared/color';
import { EMPTY, type Theme } from '../shared/theme';
import type { Mark } from './view';

export type Raster = Extract<Mark, { kind: 'raster' }>;
export type Lines = Extract<Mark, { kind: 'lines' }>;

const MIN_SIGN_PIXELS = 6; // smallest cell with a sign, in pixels
const MIN_SIGN_VALUE = 0.02; // smaller values get no sign
const MAX_SIGNS = 20000;

// The index on the color ramp of each value. One loop without function calls, for speed.
export function rampLevels({ values, signed, rows, columns }: Raster): Uint8Array {
  const out = new Uint8Array(rows * columns);
  const top = LEVELS - 1;
  const [scale, shift] = signed ? [top / 2, top / 2 + 0.5] : [top, 0.5];
  for (let i = 0; i < out.length; i += 1) {
    const level = values[i] * scale + shift;
    if (level >= top) out[i] = top;
    else if (level >= 0) out[i] = level;
    else if (!(level < 0)) out[i] = EMPTY;
  }
  return out;
}

function colorRamp(raster: Raster, theme: Theme): Uint8Array {
  return raster.signed ? theme.diverging : theme.sequential;
}

export function rasterPixels(raster: Raster, theme: Theme): Uint8ClampedArray<ArrayBuffer> {
  const palette = colorPalette(colorRamp(raster, theme));
  const levels = rampLevels(raster);
  const out = new Uint32Array(levels.length);
  for (let i = 0; i < levels.length; i += 1) out[i] = palette[levels[i]];
  return new Uint8ClampedArray(out.buffer);
}

// The RGBA color of each level as one number. Empty cells are transparent.
const palettes = new WeakMap<Uint8Array, Uint32Array>();

function colorPalette(colors: Uint8Array): Uint32Array {
  const cached = palettes.get(colors);
  if (cached) return cached;
  const palette = new Uint32Array(256);
  const bytes = new Uint8Array(palette.buffer);
  for (let i = 0; i < LEVELS; i += 1) {
    bytes.set(colors.subarray(3 * i, 3 * i + 3), 4 * i);
    bytes[4 * i + 3] = 255;
  }
  palettes.set(colors, palette);
  return palette;
}

// RGBA pixels of an opaque picture.
export function opaquePixels(rgb: Uint8Array): Uint8ClampedArray<ArrayBuffer> {
  const out = new Uint8ClampedArray((rgb.length / 3) * 4).fill(255);
  for (let i = 0; i < rgb.length; i += 1) out[i + Math.floor(i / 3)] = rgb[i];
  return out;
}

const DARK_VALUE = 0.55; // darker cells need a light sign

// Minus signs for negative cells, as lines.
export function minusSigns(raster: Raster): Lines[] {
  const [w, h] = [raster.w / raster.columns, raster.h / raster.rows];
  if (
    !raster.signed ||
    raster.noSigns ||
    w < MIN_SIGN_PIXELS ||
    h < MIN_SIGN_PIXELS ||
    raster.values.length > MAX_SIGNS
  )
    return [];
  const [weak, strong]: number[][] = [[], []];
  for (let i = 0; i < raster.rows * raster.columns; i += 1) {
    if (!(raster.values[i] < -MIN_SIGN_VALUE)) continue;
    const x = raster.x + ((i % raster.columns) + 0.5) * w;
    const y = raster.y + (Math.floor(i / raster.columns) + 0.5) * h;
    const half = Math.min(w, h, 20) * 0.25;
    (raster.values[i] < -DARK_VALUE ? strong : weak).push(x - half, y, x + half, y);
  }
  return [signLines(weak, 'ink'), signLines(strong, 'page')].filter(
    (each) => each.points.length > 0,
  );
}

function signLines(points: number[], stroke: string): Lines {
  const size = points.length / 4;
  return {
    kind: 'lines',
    points: Float32Array.from(points),
    opacities: new Float32Array(size).fill(0.9),
    widths: new Float32Array(size).fill(1.25),
    stroke,
  };
}

export interface LineBatch {
  opacity: number;
  width: number;
  lines: number[]; // indices
}

const OPACITY_LEVELS = 32;

// Strokes lines of nearly the same style together: 20,000 take a few milliseconds.
const batchCache = new WeakMap<Lines, LineBatch[]>();

export function lineBatches(lines: Lines): LineBatch[] {
  let cached = batchCache.get(lines);
  if (!cached) batchCache.set(lines, (cached = groupByStyle(lines)));
  return cached;
}

function groupByStyle(lines: Lines): LineBatch[] {
  const batchByStyle = new Map<number, LineBatch>();
  for (let i = 0; i < lines.opacities.length; i += 1) {
    const opacityLevel = Math.min(
      OPACITY_LEVELS,
      Math.max(1, Math.round(lines.opacities[i] * OPACITY_LEVELS)),
    );
    const widthLevel = Math.max(1, Math.round(lines.widths[i] * 4));
    const key = opacityLevel * 4096 + widthLevel;
    const batch = batchByStyle.get(key);
    if (batch) batch.lines.push(i);
    else
      batchByStyle.set(key, {
        opacity: opacityLevel / OPACITY_LEVELS,
        width: widthLevel / 4,
        lines: [i],
      });
  }
  // opaque lines on top
  return [...batchByStyle.values()].sort((one, other) => one.opacity - other.opacity);
}
