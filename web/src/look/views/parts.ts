// Pieces of drawings that several views share.

import type { Side } from '../format';
import { layerName } from '../names';
import type { Frame, Mark } from '../view';

type Kind<Name extends Mark['kind']> = Extract<Mark, { kind: Name }>;
type Look<Name extends Mark['kind']> = Partial<Omit<Kind<Name>, 'kind'>>;

export const words = (
  x: number, y: number, text: string, size: number, look: Look<'text'> = {},
): Mark => ({ kind: 'text', x, y, text, size, fill: 'ink', ...look });

// A line of one pixel is sharp in the middle of a pixel.
const sharp = (place: number): number => Math.floor(place) + 0.5;

export function box(x: number, y: number, w: number, h: number, look: Look<'rect'>): Mark {
  if (look.stroke === undefined) return { kind: 'rect', x, y, w, h, ...look };
  const [left, top] = [sharp(x), sharp(y)];
  return { kind: 'rect', x: left, y: top, w: sharp(x + w) - left, h: sharp(y + h) - top, ...look };
}

export function line(
  x1: number, y1: number, x2: number, y2: number, stroke: string, look: Look<'line'> = {},
): Mark {
  const [left, right] = x1 === x2 ? [sharp(x1), sharp(x2)] : [x1, x2];
  const [top, bottom] = y1 === y2 ? [sharp(y1), sharp(y2)] : [y1, y2];
  const drawn = { stroke, width: 1, opacity: 1, ...look };
  return { kind: 'line', x1: left, y1: top, x2: right, y2: bottom, ...drawn };
}

// Points x1 y1 x2 y2 of each.
export function lines(points: number[], stroke: string, opacity = 1): Mark {
  const size = points.length / 4;
  return {
    kind: 'lines', points: Float32Array.from(points), stroke,
    opacities: new Float32Array(size).fill(opacity), widths: new Float32Array(size).fill(1),
  };
}

export interface Piece {
  marks: Mark[];
  height: number;
}

// Lines no wider than `width`; a word that is wider alone has a line to itself.
export function wrapped(
  text: string, width: number, size: number, measure: Frame['measure'],
): string[] {
  const all: string[] = [];
  let now = '';
  for (const word of text.split(' ')) {
    const longer = now === '' ? word : `${now} ${word}`;
    if (now !== '' && measure(longer, size) > width) {
      all.push(now);
      now = word;
    } else now = longer;
  }
  return now === '' ? all : [...all, now];
}

export function paragraph(
  text: string, x: number, y: number, width: number, size: number, measure: Frame['measure'],
  look: Look<'text'> = { fill: 'dim' },
): Piece {
  const step = Math.round(size * 1.4);
  const room = look.bold ? width * 0.92 : width; // bold is a little wider
  const all = wrapped(text, room, size, measure);
  const marks = all.map((each, i) => (
    words(x, y + i * step + size, each, size, { limit: width, ...look })));
  return { marks, height: all.length * step };
}

export const capital = (text: string): string => text.charAt(0).toUpperCase() + text.slice(1);

// "Layer 3", or "Decoder 3 cross" where there is more than one kind.
export function layerTitle(side: Side, index: number): string {
  const name = layerName(side, index);
  return /^\d+$/.test(name) ? `Layer ${name}` : capital(name);
}
