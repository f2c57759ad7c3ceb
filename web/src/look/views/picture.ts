// Attention over a picture. The picture becomes gray and of middling tones, so that a colored
// layer is seen on light and on dark places alike; patches with most attention have a frame.

import type { Opened } from '../capture';
import type { Choices } from '../choices';
import type { Picture } from '../format';
import { shade } from '../prepare';
import type { Mark } from '../view';
import type { Place } from './panel';
import { box, line, lines, words } from './parts';

const DARKEST = 70; // of 255, after tones are pressed together
const LIGHTEST = 185;
const STRONGEST = 0.85; // opacity
const FAINT = 0.02;
const WORTH = 0.05; // share of the strongest that is worth a frame

// Orange and blue stay apart for red-green-blind eyes; on middling grays both themes can use them.
const ABOVE = '#ff8a00';
const BELOW = '#2f8fff';
const [BLACK, WHITE] = ['#000000', '#ffffff'];

const grays = new WeakMap<Uint8Array, Uint8Array>();

export function grayOf(opened: Opened, image: Picture): Uint8Array {
  const pixels = opened.bytes(image.pixels);
  const known = grays.get(pixels);
  if (known) return known;
  const gray = new Uint8Array(pixels.length);
  for (let i = 0; i < pixels.length; i += 3) {
    const light = 0.299 * pixels[i] + 0.587 * pixels[i + 1] + 0.114 * pixels[i + 2];
    gray.fill(Math.round(DARKEST + (light / 255) * (LIGHTEST - DARKEST)), i, i + 3);
  }
  grays.set(pixels, gray);
  return gray;
}

// The largest place of the picture's shape within a width and a height.
export function fitted(image: Picture, x: number, y: number, w: number, h: number): Place {
  const factor = Math.min(w / image.width, h / image.height);
  return { x, y, w: image.width * factor, h: image.height * factor };
}

export const isPatch = (image: Picture, token: number): boolean => (
  token >= image.first && token < image.first + image.rows * image.columns);

export function patchBox(place: Place, image: Picture, token: number): Place {
  const [w, h] = [place.w / image.columns, place.h / image.rows];
  const patch = token - image.first;
  const [row, column] = [Math.floor(patch / image.columns), patch % image.columns];
  return { x: place.x + column * w, y: place.y + row * h, w, h };
}

// The token under the pointer, or -1.
export function patchAt(place: Place, image: Picture, x: number, y: number): number {
  const column = Math.floor(((x - place.x) / place.w) * image.columns);
  const row = Math.floor(((y - place.y) / place.h) * image.rows);
  const inside = column >= 0 && column < image.columns && row >= 0 && row < image.rows;
  return inside ? image.first + row * image.columns + column : -1;
}

// Patches with most attention, the strongest first; none that has next to nothing of it.
export function strongest(values: ArrayLike<number>, image: Picture, most: number): number[] {
  const size = (token: number): number => Math.abs(values[token]);
  const order = Array.from({ length: image.rows * image.columns }, (_, i) => image.first + i)
    .sort((a, b) => size(b) - size(a) || a - b).slice(0, most);
  return order.filter((token) => size(token) > 0 && size(token) >= WORTH * size(order[0]));
}

// How much of all attention goes to patches.
export function patchShare(values: ArrayLike<number>, image: Picture): number {
  let [patches, all] = [0, 0];
  for (let i = 0; i < values.length; i++) {
    all += Math.abs(values[i]);
    if (isPatch(image, i)) patches += Math.abs(values[i]);
  }
  return all > 0 ? patches / all : 0;
}

export const pictureMark = (place: Place, image: Picture, rgb: Uint8Array): Mark => (
  { kind: 'picture', ...place, rows: image.height, columns: image.width, rgb });

export function heatMarks(
  place: Place, image: Picture, values: ArrayLike<number>, most: number, scale: Choices['scale'],
): Mark[] {
  const marks: Mark[] = [];
  for (let i = 0; i < image.rows * image.columns; i++) {
    const value = values[image.first + i];
    const strength = most > 0 ? shade(Math.abs(value) / most, scale) : 0;
    if (strength < FAINT) continue;
    const { x, y, w, h } = patchBox(place, image, image.first + i);
    const fill = value < 0 ? BELOW : ABOVE;
    marks.push(box(x, y, w, h, { fill, opacity: strength * STRONGEST }));
    const middle = y + h / 2;
    if (value < 0) marks.push(line(x + w * 0.3, middle, x + w * 0.7, middle, WHITE)); // a minus
  }
  return marks;
}

export function gridMarks({ x, y, w, h }: Place, image: Picture): Mark[] {
  const points: number[] = [];
  for (let i = 1; i < image.columns; i++) {
    const at = x + (i * w) / image.columns;
    points.push(at, y, at, y + h);
  }
  for (let i = 1; i < image.rows; i++) {
    const at = y + (i * h) / image.rows;
    points.push(x, at, x + w, at);
  }
  return [lines(points, BLACK, 0.25)];
}

// A dark frame around a light one is seen on anything.
function frameMarks({ x, y, w, h }: Place): Mark[] {
  return [box(x + 0.5, y + 0.5, w - 1, h - 1, { stroke: BLACK }),
    box(x + 1.5, y + 1.5, w - 3, h - 3, { stroke: WHITE })];
}

// Frames around the strongest patches, numbered where there is room.
export function rankMarks(place: Place, image: Picture, tokens: number[]): Mark[] {
  return tokens.flatMap((token, i): Mark[] => {
    const patch = patchBox(place, image, token);
    const size = Math.min(12, patch.h * 0.5);
    if (patch.w < 15 || tokens.length === 1) return frameMarks(patch);
    const { x, y } = patch;
    return [
      ...frameMarks(patch), box(x + 1, y + 1, size * 0.95, size + 2, { fill: BLACK }),
      words(x + 1 + size * 0.475, y + size, String(i + 1), size,
        { fill: WHITE, anchor: 'middle', bold: true }),
    ];
  });
}

// Where the query is: a frame around the patch and a cross in it, unlike what it looks at.
export function queryMarks(place: Place, image: Picture, token: number): Mark[] {
  const { x, y, w, h } = patchBox(place, image, token);
  const [center, middle, half] = [x + w / 2, y + h / 2, Math.min(w, h) * 0.28];
  const cross = (stroke: string, width: number): Mark[] => [
    line(center - half, middle, center + half, middle, stroke, { width }),
    line(center, middle - half, center, middle + half, stroke, { width }),
  ];
  return [
    box(x - 2, y - 2, w + 4, h + 4, { stroke: WHITE, radius: 2 }),
    box(x - 3, y - 3, w + 6, h + 6, { stroke: BLACK, radius: 2 }),
    ...cross(BLACK, 5), ...cross(WHITE, 2),
  ];
}
