// A drawing as SVG: the same marks that are painted, and nothing that could run.

import { fit, MONO, SANS, type Measure } from '../shared/fonts';
import { batches, opaque, pixels, signs, type Lines, type Raster } from './raster';
import type { Theme } from '../shared/theme';
import type { Drawing, Mark } from './view';

// The address of a picture from its pixels (red, green, blue, opacity).
export type Address = (columns: number, rows: number, rgba: Uint8ClampedArray<ArrayBuffer>) => string;

const onCanvas: Address = (width, height, rgba) => {
  const canvas = Object.assign(document.createElement('canvas'), { width, height });
  canvas.getContext('2d')?.putImageData(new ImageData(rgba, width, height), 0, 0);
  return canvas.toDataURL('image/png');
};

export function svg(
  drawing: Drawing,
  title: string,
  theme: Theme,
  measure: Measure,
  address = onCanvas,
): string {
  const [w, h] = [coordinate(drawing.width), coordinate(drawing.height)];
  const marks = drawing.marks.map((mark) => one(mark, theme, measure, address)).join('\n');
  return (
    `<svg xmlns="http://www.w3.org/2000/svg" width="${w}" height="${h}" viewBox="0 0 ${w} ${h}" ` +
    `font-family="${escape(SANS)}" role="img">\n<title>${escape(title)}</title>\n` +
    `<desc>${escape(drawing.summary)}</desc>\n` +
    `<rect width="${w}" height="${h}" fill="${theme.color('page')}"/>\n${marks}\n</svg>\n`
  );
}

// What XML cannot hold at all becomes a sign for it.
export function escape(text: string): string {
  return text
    .replace(/[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g, '\ufffd')
    .replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\ufffe\uffff]/g, '\ufffd')
    .replace(/&/g, '&amp;')
    .replace(/</g, '&lt;')
    .replace(/>/g, '&gt;')
    .replace(/"/g, '&quot;')
    .replace(/'/g, '&#39;');
}

function coordinate(value: number): string {
  return Number.isFinite(value) ? String(Math.round(value * 100) / 100) : '0';
}

function one(mark: Mark, theme: Theme, measure: Measure, address: Address): string {
  switch (mark.kind) {
    case 'rect':
      return (
        `<rect ${box(mark)}${mark.radius ? ` rx="${coordinate(mark.radius)}"` : ''} ` +
        `fill="${mark.fill ? theme.color(mark.fill) : 'none'}"` +
        `${mark.stroke ? ` stroke="${theme.color(mark.stroke)}"` : ''}` +
        `${faded('opacity', mark.opacity)}/>`
      );
    case 'line':
      return (
        `<path d="M${coordinate(mark.x1)} ${coordinate(mark.y1)}L${coordinate(mark.x2)} ` +
        `${coordinate(mark.y2)}" fill="none" ` +
        `${stroke(theme, mark.stroke, mark.width, mark.opacity, mark.dash)}/>`
      );
    case 'text':
      return text(mark, theme, measure);
    case 'poly':
      return poly(mark, theme);
    case 'lines':
      return lines(mark, theme);
    case 'raster':
      return raster(mark, theme, address);
    case 'picture':
      return (
        `<image ${box(mark)} preserveAspectRatio="none" ` +
        `href="${address(mark.columns, mark.rows, opaque(mark.rgb))}"/>`
      );
  }
}

function box({ x, y, w, h }: { x: number; y: number; w: number; h: number }): string {
  return (
    `x="${coordinate(x)}" y="${coordinate(y)}" width="${coordinate(Math.max(0, w))}" ` +
    `height="${coordinate(Math.max(0, h))}"`
  );
}

function faded(name: string, opacity: number | undefined): string {
  return opacity === undefined || opacity >= 1 ? '' : ` ${name}="${coordinate(opacity)}"`;
}

function stroke(
  theme: Theme,
  color: string,
  width: number,
  opacity: number,
  dash: number[] = [],
): string {
  const dashes = dash.length ? ` stroke-dasharray="${dash.map(coordinate).join(' ')}"` : '';
  return (
    `stroke="${theme.color(color)}" stroke-width="${coordinate(width)}"` +
    `${faded('stroke-opacity', opacity)}${dashes}`
  );
}

function text(mark: Extract<Mark, { kind: 'text' }>, theme: Theme, measure: Measure): string {
  const shown =
    mark.limit === undefined
      ? mark.text
      : fit(mark.text, mark.limit, (each) => measure(each, mark.size, mark.mono, mark.bold));
  const [x, y] = [coordinate(mark.x), coordinate(mark.y)];
  const turned = mark.rotate ? ` transform="rotate(${coordinate(mark.rotate)} ${x} ${y})"` : '';
  const anchor = mark.anchor && mark.anchor !== 'start' ? ` text-anchor="${mark.anchor}"` : '';
  const family = mark.mono ? ` font-family="${escape(MONO)}"` : '';
  return (
    `<text x="${x}" y="${y}" font-size="${coordinate(mark.size)}" ` +
    `fill="${theme.color(mark.fill ?? 'ink')}"${anchor}${family}` +
    `${mark.bold ? ' font-weight="600"' : ''}${turned} ` +
    `style="white-space:pre">${escape(shown)}</text>`
  );
}

function poly(mark: Extract<Mark, { kind: 'poly' }>, theme: Theme): string {
  const d = mark.points
    .map(([x, y], i) => `${i ? 'L' : 'M'}${coordinate(x)} ${coordinate(y)}`)
    .join('');
  const { fill, width = 1, dash } = mark;
  const look = mark.stroke ? ` ${stroke(theme, mark.stroke, width, 1, dash)}` : '';
  return (
    `<path d="${d}${mark.closed ? 'Z' : ''}" fill="${fill ? theme.color(fill) : 'none'}"${look}` +
    `${faded('opacity', mark.opacity)}/>`
  );
}

function lines(mark: Lines, theme: Theme): string {
  const { points } = mark;
  return batches(mark)
    .map((batch) => {
      const path = batch.lines
        .map((i) => {
          const [x1, y1, x2, y2] = [0, 1, 2, 3].map((each) => coordinate(points[4 * i + each]));
          return `M${x1} ${y1}L${x2} ${y2}`;
        })
        .join('');
      const look = stroke(theme, mark.stroke, batch.width, batch.opacity, mark.dash);
      return `<path d="${path}" fill="none" ${look}/>`;
    })
    .join('\n');
}

function raster(mark: Raster, theme: Theme, address: Address): string {
  if (mark.columns < 1 || mark.rows < 1) return '';
  const picture = address(mark.columns, mark.rows, pixels(mark, theme));
  const minus = signs(mark)
    .map((each) => `\n${lines(each, theme)}`)
    .join('');
  return (
    `<image ${box(mark)} preserveAspectRatio="none" style="image-rendering:pixelated"` +
    `${faded('opacity', mark.opacity)} href="${picture}"/>${minus}`
  );
}
