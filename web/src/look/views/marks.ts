// Helpers that create marks: text, rectangles, lines, paragraphs.

import type { Side } from '../capture-format';
import { layerName } from '../names';
import type { Frame, Mark } from '../view';

type MarkOfKind<Name extends Mark['kind']> = Extract<Mark, { kind: Name }>;
type MarkStyle<Name extends Mark['kind']> = Partial<Omit<MarkOfKind<Name>, 'kind'>>;

export const textMark = (
  x: number, y: number, text: string, size: number, style: MarkStyle<'text'> = {},
): Mark => ({ kind: 'text', x, y, text, size, fill: 'ink', ...style });

// A line of one pixel is sharp if it is centered on a pixel.
const toPixelCenter = (coordinate: number): number => Math.floor(coordinate) + 0.5;

export function rectMark(x: number, y: number, w: number, h: number,
  style: MarkStyle<'rect'>): Mark {
  if (style.stroke === undefined) return { kind: 'rect', x, y, w, h, ...style };
  const [left, top] = [toPixelCenter(x), toPixelCenter(y)];
  return { kind: 'rect', x: left, y: top, w: toPixelCenter(x + w) - left,
    h: toPixelCenter(y + h) - top, ...style };
}

export function lineMark(
  x1: number, y1: number, x2: number, y2: number, stroke: string, style: MarkStyle<'line'> = {},
): Mark {
  const [left, right] = x1 === x2 ? [toPixelCenter(x1), toPixelCenter(x2)] : [x1, x2];
  const [top, bottom] = y1 === y2 ? [toPixelCenter(y1), toPixelCenter(y2)] : [y1, y2];
  const strokeStyle = { stroke, width: 1, opacity: 1, ...style };
  return { kind: 'line', x1: left, y1: top, x2: right, y2: bottom, ...strokeStyle };
}

// Points are x1 y1 x2 y2 of each line.
export function linesMark(points: number[], stroke: string, opacity = 1): Mark {
  const size = points.length / 4;
  return {
    kind: 'lines', points: Float32Array.from(points), stroke,
    opacities: new Float32Array(size).fill(opacity), widths: new Float32Array(size).fill(1),
  };
}

export interface MarkBlock {
  marks: Mark[];
  height: number;
}

// Wraps text at spaces into lines no wider than `width`. A wider word gets its own line.
export function wrapText(
  text: string, width: number, size: number, measure: Frame['measure'],
): string[] {
  const lines: string[] = [];
  let line = '';
  for (const word of text.split(' ')) {
    const longer = line === '' ? word : `${line} ${word}`;
    if (line !== '' && measure(longer, size) > width) {
      lines.push(line);
      line = word;
    } else line = longer;
  }
  return line === '' ? lines : [...lines, line];
}

export function paragraph(
  text: string, x: number, y: number, width: number, size: number, measure: Frame['measure'],
  style: MarkStyle<'text'> = { fill: 'dim' },
): MarkBlock {
  const step = Math.round(size * 1.4);
  const textWidth = style.bold ? width * 0.92 : width; // bold is a little wider
  const lines = wrapText(text, textWidth, size, measure);
  const marks = lines.map((each, i) => (
    textMark(x, y + i * step + size, each, size, { limit: width, ...style })));
  return { marks, height: lines.length * step };
}

export const capitalize = (text: string): string => text.charAt(0).toUpperCase() + text.slice(1);

// "Layer 3", or "Decoder 3 cross" where there is more than one kind.
export function layerTitle(side: Side, index: number): string {
  const name = layerName(side, index);
  return /^\d+$/.test(name) ? `Layer ${name}` : capitalize(name);
}
