// The boards of the plane as one SVG file. What style sheets say about their marks is written into
// each mark, so that the file looks the same elsewhere.

import { setColors } from '../report/page-frame';
import { COLUMN_PIXELS, type SaveOptions } from '../shared/save-figure';
import type { Table } from '../shared/table-type';
import { SANS } from '../shared/text-width';
import { theme } from '../shared/theme';
import type { Plane, PlaneResult } from './plane-attention';

const STYLES = [
  'fill', 'fill-opacity', 'stroke', 'stroke-width', 'stroke-dasharray', 'stroke-linecap',
  'stroke-linejoin', 'opacity', 'paint-order', 'font-size', 'font-weight', 'text-anchor',
]; // prettier-ignore
const [GAP, TITLE_HEIGHT, TEXT] = [12, 20, 12];
const NAMESPACE = 'http://www.w3.org/2000/svg';

// Side by side in two columns, one below the other in one.
export function boardsSvg(container: HTMLElement, { mode, columns, caption }: SaveOptions): string {
  const boards = [...container.querySelectorAll<HTMLElement>('.board')];
  const width = COLUMN_PIXELS[columns];
  const perRow = columns === 2 ? boards.length : 1;
  const side = (width - GAP * (perRow + 1)) / perRow;
  const top = caption ? TITLE_HEIGHT : 0;
  const rowHeight = side + top + GAP;
  const height = Math.ceil(boards.length / perRow) * rowHeight + GAP;
  const root = element('svg', { xmlns: NAMESPACE, width, height, viewBox: `0 0 ${width} ${height}`,
    'font-family': SANS }); // prettier-ignore
  root.append(element('rect', { width, height, fill: theme(mode).color('page') }));
  inColors(mode, () =>
    boards.forEach((board, i) => {
      const [x, y] = [GAP + (i % perRow) * (side + GAP), GAP + Math.floor(i / perRow) * rowHeight];
      if (caption) {
        const title = element('text', { x, y: y + TEXT, 'font-size': TEXT, 'font-weight': 600,
          fill: theme(mode).color('ink') }); // prettier-ignore
        title.textContent = board.querySelector('figcaption')?.textContent ?? '';
        root.append(title);
      }
      const drawn = board.querySelector('svg');
      if (!drawn) return;
      const copy = styledCopy(drawn) as SVGSVGElement;
      for (const [name, value] of Object.entries({ x, y: y + top, width: side, height: side }))
        copy.setAttribute(name, String(value));
      root.append(copy);
    }),
  );
  return new XMLSerializer().serializeToString(root);
}

function element(name: string, attributes: Record<string, string | number>): SVGElement {
  const made = document.createElementNS(NAMESPACE, name);
  for (const [each, value] of Object.entries(attributes))
    if (each !== 'xmlns') made.setAttribute(each, String(value));
  return made;
}

// Runs `read` while the page has these colors. The page is not painted in between.
function inColors(mode: SaveOptions['mode'], read: () => void): void {
  const { style } = document.documentElement;
  const before = style.cssText;
  setColors(mode);
  try {
    read();
  } finally {
    style.cssText = before;
  }
}

// A copy without classes, roles and handlers, with its computed style as attributes.
function styledCopy(source: Element): Element {
  const copy = document.createElementNS(NAMESPACE, source.localName);
  for (const { name, value } of source.attributes)
    if (/^(d|x|y|[xy][12]|cx|cy|r|rx|width|height|viewBox|transform|points)$/.test(name))
      copy.setAttribute(name, value);
  const style = getComputedStyle(source);
  for (const name of STYLES) copy.setAttribute(name, style.getPropertyValue(name));
  for (const child of source.childNodes) {
    if (child instanceof Element) copy.append(styledCopy(child));
    else if (child.nodeType === Node.TEXT_NODE) copy.append(child.textContent ?? '');
  }
  return copy;
}

// Every weight, its key and its value.
export function planeTable(plane: Plane, result: PlaneResult): Table {
  return {
    title: 'Weights',
    header: ['query', 'key', 'weight', 'key x', 'key y', 'value x', 'value y'],
    rows: result.rows.flatMap(({ weights }, query) =>
      weights.map((weight, key) => [
        query + 1, key + 1, weight, ...plane.keys[key], ...result.values[key],
      ]),
    ), // prettier-ignore
  };
}
