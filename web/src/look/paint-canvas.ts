// Paints the visible part of a drawing on a canvas.

import { fitText, font, type Measure } from '../shared/text-width';
import {
  lineBatches,
  opaquePixels,
  rasterPixels,
  minusSigns,
  type Lines,
  type Raster,
} from './raster';
import type { Theme } from '../shared/theme';
import type { Drawing, Mark } from './view';

export interface VisibleArea {
  x: number;
  y: number;
  w: number;
  h: number;
}

type Context = CanvasRenderingContext2D;

const MAX_SIDE_PIXELS = 16384; // pixels of a canvas, in each direction
const MAX_AREA_PIXELS = 64e6;

// Resizes the canvas to the visible part and paints it, in device pixels.
export function paint(
  canvas: HTMLCanvasElement,
  marks: Mark[],
  part: VisibleArea,
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
  for (const mark of marks) paintMark(context, mark, part, theme, measure);
}

// The whole drawing as a PNG file. A very large drawing gets a lower resolution.
export async function renderPng(
  drawing: Drawing,
  theme: Theme,
  measure: Measure,
): Promise<Blob | null> {
  const { width, height } = drawing;
  const ratio = Math.min(
    2,
    MAX_SIDE_PIXELS / width,
    MAX_SIDE_PIXELS / height,
    Math.sqrt(MAX_AREA_PIXELS / (width * height)),
  );
  const canvas = document.createElement('canvas');
  paint(canvas, drawing.marks, { x: 0, y: 0, w: width, h: height }, ratio, theme, measure, true);
  return new Promise((resolve) => canvas.toBlob(resolve, 'image/png'));
}

function paintMark(
  context: Context,
  mark: Mark,
  part: VisibleArea,
  theme: Theme,
  measure: Measure,
): void {
  switch (mark.kind) {
    case 'rect':
      return paintRect(context, mark, part, theme);
    case 'line':
      return paintLine(context, mark, part, theme);
    case 'text':
      return paintText(context, mark, part, theme, measure);
    case 'poly':
      return paintPoly(context, mark, theme);
    case 'lines':
      return paintLines(context, mark, part, theme);
    case 'raster':
      return paintRaster(context, mark, part, theme);
    case 'picture':
      return paintPicture(context, mark, part);
  }
}

function isOutside(part: VisibleArea, x: number, y: number, w: number, h: number): boolean {
  return x > part.x + part.w || y > part.y + part.h || x + w < part.x || y + h < part.y;
}

function paintRect(
  context: Context,
  mark: Extract<Mark, { kind: 'rect' }>,
  part: VisibleArea,
  theme: Theme,
): void {
  if (isOutside(part, mark.x - 2, mark.y - 2, mark.w + 4, mark.h + 4)) return;
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

function paintLine(
  context: Context,
  mark: Extract<Mark, { kind: 'line' }>,
  part: VisibleArea,
  theme: Theme,
): void {
  const [left, top] = [Math.min(mark.x1, mark.x2), Math.min(mark.y1, mark.y2)];
  const [w, h] = [Math.abs(mark.x1 - mark.x2), Math.abs(mark.y1 - mark.y2)];
  if (isOutside(part, left - mark.width, top - mark.width, w + 2 * mark.width, h + 2 * mark.width))
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

function paintPoly(context: Context, mark: Extract<Mark, { kind: 'poly' }>, theme: Theme): void {
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

function paintLines(context: Context, mark: Lines, part: VisibleArea, theme: Theme): void {
  const { points } = mark;
  const [top, bottom] = [part.y - 8, part.y + part.h + 8];
  context.strokeStyle = theme.color(mark.stroke);
  context.setLineDash(mark.dash ?? []);
  for (const batch of lineBatches(mark)) {
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

function paintText(
  context: Context,
  mark: Extract<Mark, { kind: 'text' }>,
  part: VisibleArea,
  theme: Theme,
  measure: Measure,
): void {
  const reach =
    mark.rotate || mark.anchor === 'middle' || mark.anchor === 'end'
      ? part.w + part.h
      : 2 * mark.size;
  if (
    mark.rotate
      ? isOutside(part, mark.x - 400, mark.y - 400, 800, 800)
      : isOutside(part, mark.x - reach, mark.y - 2 * mark.size, part.w + 2 * reach, 3 * mark.size)
  )
    return;
  const text =
    mark.limit === undefined
      ? mark.text
      : fitText(mark.text, mark.limit, (each) => measure(each, mark.size, mark.mono, mark.bold));
  context.font = font(mark.size, mark.mono, mark.bold);
  context.fillStyle = theme.color(mark.fill ?? 'ink');
  context.textAlign =
    mark.anchor === 'middle' ? 'center' : mark.anchor === 'end' ? 'right' : 'left';
  context.direction = 'ltr';
  if (!mark.rotate) {
    context.fillText(text, mark.x, mark.y);
    return;
  }
  context.save();
  context.translate(mark.x, mark.y);
  context.rotate((mark.rotate * Math.PI) / 180);
  context.fillText(text, 0, 0);
  context.restore();
}

// Caches the painted image as long as its values exist.
const canvasCache = new WeakMap<
  Float32Array | Uint8Array,
  { key: string; canvas: HTMLCanvasElement }
>();

function cachedCanvas(
  values: Float32Array | Uint8Array,
  key: string,
  columns: number,
  rows: number,
  makePixels: () => Uint8ClampedArray<ArrayBuffer>,
): HTMLCanvasElement {
  const cached = canvasCache.get(values);
  if (cached?.key === key) return cached.canvas;
  const canvas = document.createElement('canvas');
  Object.assign(canvas, { width: columns, height: rows });
  canvas.getContext('2d')?.putImageData(new ImageData(makePixels(), columns, rows), 0, 0);
  canvasCache.set(values, { key, canvas });
  return canvas;
}

function paintRaster(context: Context, mark: Raster, part: VisibleArea, theme: Theme): void {
  if (isOutside(part, mark.x, mark.y, mark.w, mark.h) || mark.columns < 1 || mark.rows < 1) return;
  const key = `${theme.mode} ${mark.signed} ${mark.columns} ${mark.rows}`;
  const canvas = cachedCanvas(mark.values, key, mark.columns, mark.rows, () =>
    rasterPixels(mark, theme),
  );
  // large cells stay sharp; cells smaller than a pixel are averaged
  const { a, d } = context.getTransform();
  context.imageSmoothingEnabled = mark.w * a < mark.columns || mark.h * d < mark.rows;
  context.imageSmoothingQuality = 'high';
  context.globalAlpha = mark.opacity ?? 1;
  context.drawImage(canvas, mark.x, mark.y, mark.w, mark.h);
  context.globalAlpha = 1;
  for (const minus of minusSigns(mark)) paintLines(context, minus, part, theme);
}

function paintPicture(
  context: Context,
  mark: Extract<Mark, { kind: 'picture' }>,
  part: VisibleArea,
): void {
  if (isOutside(part, mark.x, mark.y, mark.w, mark.h)) return;
  const canvas = cachedCanvas(
    mark.rgb,
    `${mark.columns} ${mark.rows}`,
    mark.columns,
    mark.rows,
    () => opaquePixels(mark.rgb),
  );
  context.imageSmoothingEnabled = true;
  context.drawImage(canvas, mark.x, mark.y, mark.w, mark.h);
}
