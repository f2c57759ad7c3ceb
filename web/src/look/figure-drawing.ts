// A drawing for a figure of its own: cropped to what is drawn, with the finding as its caption.

import type { Drawing, Frame, Mark, View } from './view';
import { paragraph } from './views/marks';

const MARGIN = 8;
const CAPTION_SIZE = 12;
const MIN_HEIGHT = 320; // height that the view may fill, in pixels
const MAX_HEIGHT = 900;

export function figureDrawing(view: View, frame: Frame, caption: boolean): Drawing {
  const height = Math.max(MIN_HEIGHT, Math.min(MAX_HEIGHT, frame.height));
  const drawing = crop(view.draw({ ...frame, height }), frame.measure);
  if (!caption) return drawing;
  const { title } = frame.capture.header;
  const sentence = /[.?!]$/.test(title) || !title ? title : `${title}.`;
  const text = [sentence, drawing.summary].filter(Boolean).join(' ');
  const width = Math.max(drawing.width, Math.min(frame.width, 2 * drawing.width));
  const block = paragraph(text, MARGIN, drawing.height, width - 2 * MARGIN, CAPTION_SIZE,
    frame.measure, { fill: 'ink' });
  return {
    ...drawing, width, height: drawing.height + block.height + MARGIN,
    marks: [...drawing.marks, ...block.marks],
  };
}

// The same drawing without empty margins.
export function crop(drawing: Drawing, measure: Frame['measure']): Drawing {
  let [left, top, right, bottom] = [Infinity, Infinity, -Infinity, -Infinity];
  for (const mark of drawing.marks) {
    const box = bounds(mark, measure);
    if (!box) continue;
    [left, top] = [Math.min(left, box[0]), Math.min(top, box[1])];
    [right, bottom] = [Math.max(right, box[2]), Math.max(bottom, box[3])];
  }
  if (!(right > left) || !(bottom > top)) return drawing;
  const [dx, dy] = [MARGIN - left, MARGIN - top];
  return {
    ...drawing, marks: drawing.marks.map((mark) => shift(mark, dx, dy)), targets: [],
    targetAt: undefined, zoom: undefined,
    width: Math.ceil(right - left + 2 * MARGIN), height: Math.ceil(bottom - top + 2 * MARGIN),
  };
}

type Box = [number, number, number, number]; // left, top, right, bottom

function bounds(mark: Mark, measure: Frame['measure']): Box | null {
  switch (mark.kind) {
    case 'rect':
    case 'raster':
    case 'picture':
      return [mark.x, mark.y, mark.x + mark.w, mark.y + mark.h];
    case 'line':
      return [Math.min(mark.x1, mark.x2), Math.min(mark.y1, mark.y2),
        Math.max(mark.x1, mark.x2), Math.max(mark.y1, mark.y2)];
    case 'text':
      return textBounds(mark, measure);
    case 'poly':
      return pointBounds(mark.points.flat());
    case 'lines':
      return pointBounds(mark.points);
  }
}

function textBounds(mark: Extract<Mark, { kind: 'text' }>, measure: Frame['measure']): Box {
  const natural = measure(mark.text, mark.size, mark.mono) * (mark.bold ? 1.08 : 1);
  const w = Math.min(natural, mark.limit ?? Infinity);
  const before = mark.anchor === 'end' ? w : mark.anchor === 'middle' ? w / 2 : 0;
  const corners = [[-before, -mark.size], [w - before, -mark.size], [-before, 0.3 * mark.size],
    [w - before, 0.3 * mark.size]];
  const angle = ((mark.rotate ?? 0) * Math.PI) / 180;
  return pointBounds(corners.flatMap(([x, y]) => [
    mark.x + x * Math.cos(angle) - y * Math.sin(angle),
    mark.y + x * Math.sin(angle) + y * Math.cos(angle)])) as Box;
}

// Of numbers x, y, x, y, ...
function pointBounds(points: ArrayLike<number>): Box | null {
  const box: Box = [Infinity, Infinity, -Infinity, -Infinity];
  for (let i = 0; i + 1 < points.length; i += 2) {
    [box[0], box[1]] = [Math.min(box[0], points[i]), Math.min(box[1], points[i + 1])];
    [box[2], box[3]] = [Math.max(box[2], points[i]), Math.max(box[3], points[i + 1])];
  }
  return box[2] >= box[0] ? box : null;
}

function shift(mark: Mark, dx: number, dy: number): Mark {
  switch (mark.kind) {
    case 'line':
      return { ...mark, x1: mark.x1 + dx, x2: mark.x2 + dx, y1: mark.y1 + dy, y2: mark.y2 + dy };
    case 'poly':
      return { ...mark, points: mark.points.map(([x, y]) => [x + dx, y + dy]) };
    case 'lines':
      return { ...mark, points: mark.points.map((at, i) => at + (i % 2 ? dy : dx)) };
    default:
      return { ...mark, x: mark.x + dx, y: mark.y + dy };
  }
}
