// Marks that show attention over a picture. The picture becomes a dark gray with low contrast, and
// attention light: so a brighter patch always gets more attention, whether its pixels are black or
// white. Patches with the largest weights get a frame.

import type { Capture } from '../capture';
import type { Choices } from '../choices';
import type { Picture } from '../capture-format';
import { colorStrength, maxAbs } from '../prepare-weights';
import type { Mark } from '../view';
import type { Rect } from './heatmap-panel';
import { rectMark, lineMark, linesMark, textMark } from './marks';

const MIN_GRAY = 24; // of 255, after the contrast is reduced
const MAX_GRAY = 84;
const MAX_OPACITY = 0.88; // largest opacity
const MIN_STRENGTH = 0.02;
const MIN_FRAME_FRACTION = 0.05; // smallest fraction of the largest weight that gets a frame

// Yellow and blue are distinct for color-blind readers, and both are much lighter than the gray.
const POSITIVE_COLOR = '#ffc21a';
const NEGATIVE_COLOR = '#7cc4ff';
const [BLACK, WHITE] = ['#000000', '#ffffff'];

const grays = new WeakMap<Uint8Array, Uint8Array>();

export function lowContrastGray(capture: Capture, image: Picture): Uint8Array {
  const pixels = capture.bytes(image.pixels);
  const cached = grays.get(pixels);
  if (cached) return cached;
  const gray = new Uint8Array(pixels.length);
  for (let i = 0; i < pixels.length; i += 3) {
    const luminance = 0.299 * pixels[i] + 0.587 * pixels[i + 1] + 0.114 * pixels[i + 2];
    gray.fill(Math.round(MIN_GRAY + (luminance / 255) * (MAX_GRAY - MIN_GRAY)), i, i + 3);
  }
  grays.set(pixels, gray);
  return gray;
}

// The largest rectangle with the aspect ratio of the picture within a width and a height.
export function fitPicture(image: Picture, x: number, y: number, w: number, h: number): Rect {
  const factor = Math.min(w / image.width, h / image.height);
  return { x, y, w: image.width * factor, h: image.height * factor };
}

export const isPatch = (image: Picture, token: number): boolean => (
  token >= image.first && token < image.first + image.rows * image.columns);

export function patchRect(area: Rect, image: Picture, token: number): Rect {
  const [w, h] = [area.w / image.columns, area.h / image.rows];
  const patch = token - image.first;
  const [row, column] = [Math.floor(patch / image.columns), patch % image.columns];
  return { x: area.x + column * w, y: area.y + row * h, w, h };
}

// The token under the pointer, or -1.
export function patchAt(area: Rect, image: Picture, x: number, y: number): number {
  const column = Math.floor(((x - area.x) / area.w) * image.columns);
  const row = Math.floor(((y - area.y) / area.h) * image.rows);
  const inside = column >= 0 && column < image.columns && row >= 0 && row < image.rows;
  return inside ? image.first + row * image.columns + column : -1;
}

// The patches with the largest weights, in descending order, without negligible ones.
export function strongestPatches(values: ArrayLike<number>, image: Picture,
  limit: number): number[] {
  const magnitude = (token: number): number => Math.abs(values[token]);
  const order = Array.from({ length: image.rows * image.columns }, (_, i) => image.first + i)
    .sort((a, b) => magnitude(b) - magnitude(a) || a - b).slice(0, limit);
  return order.filter((token) => magnitude(token) > 0
    && magnitude(token) >= MIN_FRAME_FRACTION * magnitude(order[0]));
}

// The largest weight of a patch. Other tokens have no color, so their weights must not dim the patches.
export const largestOnPatches = (values: Float32Array, image: Picture): number => (
  maxAbs(values.subarray(image.first, image.first + image.rows * image.columns)));

// The fraction of the attention that goes to patches.
export function fractionOnPatches(values: ArrayLike<number>, image: Picture): number {
  let [patches, total] = [0, 0];
  for (let i = 0; i < values.length; i++) {
    total += Math.abs(values[i]);
    if (isPatch(image, i)) patches += Math.abs(values[i]);
  }
  return total > 0 ? patches / total : 0;
}

export const pictureMark = (area: Rect, image: Picture, rgb: Uint8Array): Mark => (
  { kind: 'picture', ...area, rows: image.height, columns: image.width, rgb });

export function heatMarks(
  area: Rect, image: Picture, values: ArrayLike<number>, largest: number, scale: Choices['scale'],
): Mark[] {
  const marks: Mark[] = [];
  for (let i = 0; i < image.rows * image.columns; i++) {
    const value = values[image.first + i];
    const strength = largest > 0 ? colorStrength(Math.abs(value) / largest, scale) : 0;
    if (strength < MIN_STRENGTH) continue;
    const { x, y, w, h } = patchRect(area, image, image.first + i);
    const fill = value < 0 ? NEGATIVE_COLOR : POSITIVE_COLOR;
    marks.push(rectMark(x, y, w, h, { fill, opacity: strength * MAX_OPACITY }));
    const middle = y + h / 2;
    if (value < 0) marks.push(lineMark(x + w * 0.3, middle, x + w * 0.7, middle,
      WHITE)); // a minus sign
  }
  return marks;
}

export function gridMarks({ x, y, w, h }: Rect, image: Picture): Mark[] {
  const points: number[] = [];
  for (let i = 1; i < image.columns; i++) {
    const coordinate = x + (i * w) / image.columns;
    points.push(coordinate, y, coordinate, y + h);
  }
  for (let i = 1; i < image.rows; i++) {
    const coordinate = y + (i * h) / image.rows;
    points.push(x, coordinate, x + w, coordinate);
  }
  return [linesMark(points, BLACK, 0.25)];
}

// A dark frame around a light one is visible on any background.
function frameMarks({ x, y, w, h }: Rect): Mark[] {
  return [rectMark(x + 0.5, y + 0.5, w - 1, h - 1, { stroke: BLACK }),
    rectMark(x + 1.5, y + 1.5, w - 3, h - 3, { stroke: WHITE })];
}

// Frames around the strongest patches, numbered if they are large enough.
export function rankMarks(area: Rect, image: Picture, tokens: number[]): Mark[] {
  return tokens.flatMap((token, i): Mark[] => {
    const patch = patchRect(area, image, token);
    const size = Math.min(12, patch.h * 0.5);
    if (patch.w < 15 || tokens.length === 1) return frameMarks(patch);
    const { x, y } = patch;
    return [
      ...frameMarks(patch), rectMark(x + 1, y + 1, size * 0.95, size + 2, { fill: BLACK }),
      textMark(x + 1 + size * 0.475, y + size, String(i + 1), size,
        { fill: WHITE, anchor: 'middle', bold: true }),
    ];
  });
}

// Marks the query with a frame around its patch and a cross in it.
export function queryMarks(area: Rect, image: Picture, token: number): Mark[] {
  const { x, y, w, h } = patchRect(area, image, token);
  const [center, middle, half] = [x + w / 2, y + h / 2, Math.min(w, h) * 0.28];
  const cross = (stroke: string, width: number): Mark[] => [
    lineMark(center - half, middle, center + half, middle, stroke, { width }),
    lineMark(center, middle - half, center, middle + half, stroke, { width }),
  ];
  return [
    rectMark(x - 2, y - 2, w + 4, h + 4, { stroke: WHITE, radius: 2 }),
    rectMark(x - 3, y - 3, w + 6, h + 6, { stroke: BLACK, radius: 2 }),
    ...cross(BLACK, 5), ...cross(WHITE, 2),
  ];
}
