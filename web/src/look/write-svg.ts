// Writes a drawing as SVG: the same marks as on the canvas, and nothing executable.

import { fitText, MONO, SANS, type Measure } from '../shared/text-width';
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

// Returns a data URL for RGBA pixels.
export type ImageUrl = (
  columns: number,
  rows: number,
  rgba: Uint8ClampedArray<ArrayBuffer>,
) => string;

const canvasImageUrl: ImageUrl = (width, height, rgba) => {
  const canvas = Object.assign(document.createElement('canvas'), { width, height });
  canvas.getContext('2d')?.putImageData(new ImageData(rgba, width, height), 0, 0);
  return canvas.toDataURL('image/png');
};

export function writeSvg(
  drawing: Drawing,
  title: string,
  theme: Theme,
  measure: Measure,
  imageUrl = canvasImageUrl,
): string {
  const [w, h] = [formatCoordinate(drawing.width), formatCoordinate(drawing.height)];
  const marks = drawing.marks.map((mark) => markElement(mark, theme, measure, imageUrl)).join('\n');
  return (
    `<svg xmlns="http://www.w3.org/2000/svg" width="${w}" height="${h}" viewBox="0 0 ${w} ${h}" ` +
    `font-family="${escapeXml(SANS)}" role="img">\n<title>${escapeXml(title)}</title>\n` +
    `<desc>${escapeXml(drawing.summary)}</desc>\n` +
    `<rect width="${w}" height="${h}" fill="${theme.color('page')}"/>\n${marks}\n</svg>\n`
  );
}

// Also replaces characters that XML does not allow.
export function escapeXml(text: string): string {
  return text
    .replace(/[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g, '\ufffd')
    .replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\ufffe\uffff]/g, '\ufffd')
    .replace(/&/g, '&amp;')
    .replace(/</g, '&lt;')
    .replace(/>/g, '&gt;')
    .replace(/"/g, '&quot;')
    .replace(/'/g, '&#39;');
}

function formatCoordinate(value: number): string {
  return Number.isFinite(value) ? String(Math.round(value * 100) / 100) : '0';
}

function markElement(mark: Mark, theme: Theme, measure: Measure, imageUrl: ImageUrl): string {
  switch (mark.kind) {
    case 'rect':
      return (
        `<rect ${rectAttributes(mark)}${mark.radius ? ` rx="${formatCoordinate(mark.radius)}"` : ''} ` +
        `fill="${mark.fill ? theme.color(mark.fill) : 'none'}"` +
        `${mark.stroke ? ` stroke="${theme.color(mark.stroke)}"` : ''}` +
        `${opacityAttribute('opacity', mark.opacity)}/>`
      );
    case 'line':
      return (
        `<path d="M${formatCoordinate(mark.x1)} ${formatCoordinate(mark.y1)}L${formatCoordinate(mark.x2)} ` +
        `${formatCoordinate(mark.y2)}" fill="none" ` +
        `${strokeAttributes(theme, mark.stroke, mark.width, mark.opacity, mark.dash)}/>`
      );
    case 'text':
      return textElement(mark, theme, measure);
    case 'poly':
      return polyElement(mark, theme);
    case 'lines':
      return linesElement(mark, theme);
    case 'raster':
      return rasterElement(mark, theme, imageUrl);
    case 'picture':
      return (
        `<image ${rectAttributes(mark)} preserveAspectRatio="none" ` +
        `href="${imageUrl(mark.columns, mark.rows, opaquePixels(mark.rgb))}"/>`
      );
  }
}

function rectAttributes({ x, y, w, h }: { x: number; y: number; w: number; h: number }): string {
  return (
    `x="${formatCoordinate(x)}" y="${formatCoordinate(y)}" width="${formatCoordinate(Math.max(0, w))}" ` +
    `height="${formatCoordinate(Math.max(0, h))}"`
  );
}

function opacityAttribute(name: string, opacity: number | undefined): string {
  return opacity === undefined || opacity >= 1 ? '' : ` ${name}="${formatCoordinate(opacity)}"`;
}

function strokeAttributes(
  theme: Theme,
  color: string,
  width: number,
  opacity: number,
  dash: number[] = [],
): string {
  const dashes = dash.length ? ` stroke-dasharray="${dash.map(formatCoordinate).join(' ')}"` : '';
  return (
    `stroke="${theme.color(color)}" stroke-width="${formatCoordinate(width)}"` +
    `${opacityAttribute('stroke-opacity', opacity)}${dashes}`
  );
}

function textElement(
  mark: Extract<Mark, { kind: 'text' }>,
  theme: Theme,
  measure: Measure,
): string {
  const text =
    mark.limit === undefined
      ? mark.text
      : fitText(mark.text, mark.limit, (each) => measure(each, mark.size, mark.mono, mark.bold));
  const [x, y] = [formatCoordinate(mark.x), formatCoordinate(mark.y)];
  const transform = mark.rotate
    ? ` transform="rotate(${formatCoordinate(mark.rotate)} ${x} ${y})"`
    : '';
  const anchor = mark.anchor && mark.anchor !== 'start' ? ` text-anchor="${mark.anchor}"` : '';
  const family = mark.mono ? ` font-family="${escapeXml(MONO)}"` : '';
  return (
    `<text x="${x}" y="${y}" font-size="${formatCoordinate(mark.size)}" ` +
    `fill="${theme.color(mark.fill ?? 'ink')}"${anchor}${family}` +
    `${mark.bold ? ' font-weight="600"' : ''}${transform} ` +
    `style="white-space:pre">${escapeXml(text)}</text>`
  );
}

function polyElement(mark: Extract<Mark, { kind: 'poly' }>, theme: Theme): string {
  const d = mark.points
    .map(([x, y], i) => `${i ? 'L' : 'M'}${formatCoordinate(x)} ${formatCoordinate(y)}`)
    .join('');
  const { fill, width = 1, dash } = mark;
  const style = mark.stroke ? ` ${strokeAttributes(theme, mark.stroke, width, 1, dash)}` : '';
  return (
    `<path d="${d}${mark.closed ? 'Z' : ''}" fill="${fill ? theme.color(fill) : 'none'}"${style}` +
    `${opacityAttribute('opacity', mark.opacity)}/>`
  );
}

function linesElement(mark: Lines, theme: Theme): string {
  const { points } = mark;
  return lineBatches(mark)
    .map((batch) => {
      const path = batch.lines
        .map((i) => {
          const [x1, y1, x2, y2] = [0, 1, 2, 3].map((each) =>
            formatCoordinate(points[4 * i + each]),
          );
          return `M${x1} ${y1}L${x2} ${y2}`;
        })
        .join('');
      const style = strokeAttributes(theme, mark.stroke, batch.width, batch.opacity, mark.dash);
      return `<path d="${path}" fill="none" ${style}/>`;
    })
    .join('\n');
}

function rasterElement(mark: Raster, theme: Theme, address: ImageUrl): string {
  if (mark.columns < 1 || mark.rows < 1) return '';
  const href = address(mark.columns, mark.rows, rasterPixels(mark, theme));
  const signs = minusSigns(mark)
    .map((each) => `\n${linesElement(each, theme)}`)
    .join('');
  return (
    `<image ${rectAttributes(mark)} preserveAspectRatio="none" style="image-rendering:pixelated"` +
    `${opacityAttribute('opacity', mark.opacity)} href="${href}"/>${signs}`
  );
}
