// A drawing on a canvas: only the part that is seen.

import { fit, font, type Measure } from '../shared/fonts';
import { batches, opaque, pixels, signs, type Lines, type Raster } from './raster';
import type { Theme } from '../shared/theme';
import type { Drawing, Mark } from './view';

export interface Part {
  x: number;
  y: number;
  w: number;
  h: number;
}

type Context = CanvasRenderingContext2D;

const LARGEST = 16384; // pixels of a canvas, each way
const AREA = 64e6;

// Fits the canvas to the part and paints it, in device pixels.
export function paint(
  canvas: HTMLCanvasElement,
  marks: Mark[],
  part: Part,
  ratio: number,
  theme: Theme,
  measure: Measure,
  background: boolean,
): void {
  const [w, h] = [Math.max(1, Math.round(part.w * ratio)), Math.max(1, Math.round(part.h * ratio))];
  if (canvas.width !== w || canvas.height !== h) Object.assign(canvas, { width: w, height: h });
  const context = canvas.getContext('2d');
  if (!context) return;
  context.setTransform(1, 0, 0, 1, 0, 0);
  context.clearRect(0, 0, w, h);
  if (background) {
    context.fillStyle = theme.color('page');
    context.fillRect(0, 0, w, h);
  }
  context.setTransform(ratio, 0, 0, ratio, -part.x * ratio, -part.y * ratio);
  for (const mark of marks) one(context, mark, part, theme, measure);
}

// The whole drawing as a file; a very large one gets fewer pixels.
export async function png(drawing: Drawing, theme: Theme, measure: Measure): Promise<Blob | null> {
  const { width, height } = drawing;
  const ratio = Math.min(2, LARGEST / width, LARGEST / height, Math.sqrt(AREA / (width * height)));
  const canvas = document.createElement('canvas');
  paint(canvas, drawing.marks, { x: 0, y: 0, w: width, h: height }, ratio, theme, measure, true);
  return new Promise((resolve) => canvas.toBlob(resolve, 'image/png'));
}

function one(context: Context, mark: Mark, part: Part, theme: Theme, measure: Measure): void {
  switch (mark.kind) {
    case 'rect':
      return rect(context, mark, part, theme);
    case 'line':
      return line(context, mark, part, theme);
    case 'text':
      return text(context, mark, part, theme, measure);
    case 'poly':
      return poly(context, mark, theme);
    case 'lines':
      return lines(context, mark, part, theme);
    case 'raster':
      return image(context, mark, part, theme);
    case 'picture':
      return picture(context, mark, part);
  }
}

function outside(part: Part, x: number, y: number, w: number, h: number): boolean {
  return x > part.x + part.w || y > part.y + part.h || x + w < part.x || y + h < part.y;
}

function rect(
  context: Context,
  mark: Extract<Mark, { kind: 'rect' }>,
  part: Part,
  theme: Theme,
): void {
  if (outside(part, mark.x - 2, mark.y - 2, mark.w + 4, mark.h + 4)) return;
  context.globalAlpha = mark.opacity ?? 1;
  context.beginPath();
  if (mark.radius)
    context.roundRect(mark.x, mark.y, Math.max(0, mark.w), Math.max(0, mark.h), mark.radius);
  else context.rect(mark.x, mark.y, mark.w, mark.h);
  if (mark.fill) {
    context.fillStyle = theme.color(mark.fill);
    context.fill();
  }
  if (mark.stroke) {
    context.strokeStyle = theme.color(mark.stroke);
    context.lineWidth = 1;
    context.setLineDash([]);
    context.stroke();
  }
  context.globalAlpha = 1;
}

function line(
  context: Context,
  mark: Extract<Mark, { kind: 'line' }>,
  part: Part,
  theme: Theme,
): void {
  const [left, top] = [Math.min(mark.x1, mark.x2), Math.min(mark.y1, mark.y2)];
  const [w, h] = [Math.abs(mark.x1 - mark.x2), Math.abs(mark.y1 - mark.y2)];
  if (outside(part, left - mark.width, top - mark.width, w + 2 * mark.width, h + 2 * mark.width))
    return;
  context.globalAlpha = mark.opacity;
  context.strokeStyle = theme.color(mark.stroke);
  context.lineWidth = mark.width;
  context.setLineDash(mark.dash ?? []);
  context.beginPath();
  context.moveTo(mark.x1, mark.y1);
  context.lineTo(mark.x2, mark.y2);
  context.stroke();
  context.globalAlpha = 1;
}

function poly(context: Context, mark: Extract<Mark, { kind: 'poly' }>, theme: Theme): void {
  context.globalAlpha = mark.opacity ?? 1;
  context.beginPath();
  for (const [x, y] of mark.points) context.lineTo(x, y);
  if (mark.closed) context.closePath();
  if (mark.fill) {
    context.fillStyle = theme.color(mark.fill);
    context.fill();
  }
  if (mark.stroke) {
    context.strokeStyle = theme.color(mark.stroke);
    context.lineWidth = mark.width ?? 1;
    context.setLineDash(mark.dash ?? []);
    context.stroke();
  }
  context.globalAlpha = 1;
}

function lines(context: Context, mark: Lines, part: Part, theme: Theme): void {
  const { points } = mark;
  const [top, bottom] = [part.y - 8, part.y + part.h + 8];
  context.strokeStyle = theme.color(mark.stroke);
  context.setLineDash(mark.dash ?? []);
  for (const batch of batches(mark)) {
    context.globalAlpha = batch.opacity;
    context.lineWidth = batch.width;
    context.beginPath();
    for (const i of batch.lines) {
      const [y1, y2] = [points[4 * i + 1], points[4 * i + 3]];
      if ((y1 < top && y2 < top) || (y1 > bottom && y2 > bottom)) continue;
      context.moveTo(points[4 * i], y1);
      context.lineTo(points[4 * i + 2], y2);
    }
    context.stroke();
  }
  context.globalAlpha = 1;
}

function text(
  context: Context,
  mark: Extract<Mark, { kind: 'text' }>,
  part: Part,
  theme: Theme,
  measure: Measure,
): void {
  const reach =
    mark.rotate || mark.anchor === 'middle' || mark.anchor === 'end'
      ? part.w + part.h
      : 2 * mark.size;
  if (
    mark.rotate
      ? outside(part, mark.x - 400, mark.y - 400, 800, 800)
      : outside(part, mark.x - reach, mark.y - 2 * mark.size, part.w + 2 * reach, 3 * mark.size)
  )
    return;
  const shown =
    mark.limit === undefined
      ? mark.text
      : fit(mark.text, mark.limit, (each) => measure(each, mark.size, mark.mono, mark.bold));
  context.font = font(mark.size, mark.mono, mark.bold);
  context.fillStyle = theme.color(mark.fill ?? 'ink');
  context.textAlign =
    mark.anchor === 'middle' ? 'center' : mark.anchor === 'end' ? 'right' : 'left';
  context.direction = 'ltr';
  if (!mark.rotate) {
    context.fillText(shown, mark.x, mark.y);
    return;
  }
  context.save();
  context.translate(mark.x, mark.y);
  context.rotate((mark.rotate * Math.PI) / 180);
  context.fillText(shown, 0, 0);
  context.restore();
}

// What was painted before is kept as long as its values are.
const painted = new WeakMap<
  Float32Array | Uint8Array,
  { key: string; canvas: HTMLCanvasElement }
>();

function stored(
  values: Float32Array | Uint8Array,
  key: string,
  columns: number,
  rows: number,
  make: () => Uint8ClampedArray<ArrayBuffer>,
): HTMLCanvasElement {
  const known = painted.get(values);
  if (known?.key === key) return known.canvas;
  const canvas = document.createElement('canvas');
  Object.assign(canvas, { width: columns, height: rows });
  canvas.getContext('2d')?.putImageData(new ImageData(make(), columns, rows), 0, 0);
  painted.set(values, { key, canvas });
  return canvas;
}

function image(context: Context, mark: Raster, part: Part, theme: Theme): void {
  if (outside(part, mark.x, mark.y, mark.w, mark.h) || mark.columns < 1 || mark.rows < 1) return;
  const key = `${theme.mode} ${mark.signed} ${mark.columns} ${mark.rows}`;
  const canvas = stored(mark.values, key, mark.columns, mark.rows, () => pixels(mark, theme));
  // cells stay sharp; many in one pixel are averaged
  const { a, d } = context.getTransform();
  context.imageSmoothingEnabled = mark.w * a < mark.columns || mark.h * d < mark.rows;
  context.imageSmoothingQuality = 'high';
  context.globalAlpha = mark.opacity ?? 1;
  context.drawImage(canvas, mark.x, mark.y, mark.w, mark.h);
  context.globalAlpha = 1;
  for (const minus of signs(mark)) lines(context, minus, part, theme);
}

function picture(context: Context, mark: Extract<Mark, { kind: 'picture' }>, part: Part): void {
  if (outside(part, mark.x, mark.y, mark.w, mark.h)) return;
  const canvas = stored(mark.rgb, `${mark.columns} ${mark.rows}`, mark.columns, mark.rows, () =>
    opaque(mark.rgb),
  );
  context.imageSmoothingEnabled = true;
  context.drawImage(canvas, mark.x, mark.y, mark.w, mark.h);
}
