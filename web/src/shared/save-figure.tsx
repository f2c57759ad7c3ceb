// "Save figure": the same menu for every figure. A figure is drawn anew for a column of a paper, in
// light or dark, with or without its caption, as PNG or SVG; its numbers are saved as CSV or JSON.

import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import { toCsv } from './csv';
import { csvFile, downloadFile, svgFile, type MakeFile } from './download';
import type { Table } from './table-type';
import type { Mode } from './theme';

export type FigureColumns = 1 | 2;

export interface SaveOptions {
  format: 'PNG' | 'SVG';
  mode: Mode;
  columns: FigureColumns;
  caption: boolean;
}

// CSS pixels of one column (85 mm) and of two (178 mm) on paper.
export const COLUMN_PIXELS: Record<FigureColumns, number> = { 1: 321, 2: 673 };
const PNG_SCALE = 300 / 96; // 300 dots per inch
const MARGIN = 8; // between a menu and the edge of the window, in pixels

interface Props {
  name: string; // of the files, without extension
  mode: Mode; // of the page
  svg: (options: SaveOptions) => string; // the figure in these colors and of this width
  table: () => Table;
  above?: boolean; // the menu opens above the button
}

export function SaveFigure({ name, mode, svg, table, above }: Props) {
  const [open, setOpen] = useState(false);
  const [options, setOptions] = useState<SaveOptions | null>(null);
  const chosen = options ?? { format: 'PNG', mode, columns: 1, caption: true };
  const box = useRef<HTMLSpanElement>(null);
  const button = useRef<HTMLButtonElement>(null);
  const menu = useRef<HTMLSpanElement>(null);
  useLayoutEffect(() => keepInWindow(menu.current), [open]);
  const choose = (changes: Partial<SaveOptions>): void => setOptions({ ...chosen, ...changes });
  const save = (kind: string, make: MakeFile): void =>
    void downloadFile(make, `${name}.${kind.toLowerCase()}`);
  useEffect(() => {
    if (!open) return undefined;
    const close = (event: Event): void => {
      if (!event.composedPath().includes(box.current as EventTarget)) setOpen(false);
    };
    const root = box.current?.getRootNode() ?? document;
    root.addEventListener('pointerdown', close);
    return () => root.removeEventListener('pointerdown', close);
  }, [open]);
  return (
    <span
      class="save-figure"
      ref={box}
      onKeyDown={(event) => {
        if (event.key !== 'Escape' || !open) return;
        event.stopPropagation();
        setOpen(false);
        button.current?.focus();
      }}
    >
      <button type="button" ref={button} aria-expanded={open} onClick={() => setOpen(!open)}>
        Save figure
      </button>
      {open && (
        <span
          class={above ? 'save-menu above' : 'save-menu'}
          role="group"
          aria-label="Save figure"
          ref={menu}
        >
          <Choice
            name="Format"
            value={chosen.format}
            values={{ PNG: 'PNG', SVG: 'SVG' }}
            choose={(format) => choose({ format })}
          />
          <Choice
            name="Colors"
            value={chosen.mode}
            values={{ light: 'light', dark: 'dark' }}
            choose={(each) => choose({ mode: each })}
          />
          <Choice
            name="Width"
            value={String(chosen.columns) as '1' | '2'}
            values={{ 1: 'one column', 2: 'two columns' }}
            choose={(columns) => choose({ columns: Number(columns) as FigureColumns })}
          />
          <label>
            <input
              type="checkbox"
              checked={chosen.caption}
              onChange={(event) => choose({ caption: event.currentTarget.checked })}
            />
            Caption
          </label>
          <button
            type="button"
            class="primary"
            onClick={() => save(chosen.format, () => makeImage(svg(chosen), chosen.format))}
          >
            Save {chosen.format}
          </button>
          <span class="save-data">
            Data
            <button type="button" onClick={() => save('CSV', () => csvFile(toCsv(table())))}>
              CSV
            </button>
            <button type="button" onClick={() => save('JSON', () => jsonFile(table()))}>
              JSON
            </button>
          </span>
        </span>
      )}
    </span>
  );
}

// Moves a menu that would leave the window to the left, as on a phone.
function keepInWindow(menu: HTMLElement | null): void {
  if (!menu) return;
  menu.style.transform = '';
  const { left } = menu.getBoundingClientRect();
  if (left < MARGIN) menu.style.transform = `translateX(${MARGIN - left}px)`;
}

interface ChoiceProps<T extends string> {
  name: string;
  value: T;
  values: Record<T, string>;
  choose: (value: T) => void;
}

function Choice<T extends string>({ name, value, values, choose }: ChoiceProps<T>) {
  return (
    <label>
      {name}
      <select value={value} onChange={(event) => choose(event.currentTarget.value as T)}>
        {(Object.entries(values) as [T, string][]).map(([each, text]) => (
          <option key={each} value={each}>
            {text}
          </option>
        ))}
      </select>
    </label>
  );
}

// The rows of the table as objects, with their title.
export function jsonFile({ title, header, rows }: Table): Blob {
  const records = rows.map((row) => Object.fromEntries(row.map((value, i) => [header[i], value])));
  return new Blob([`${JSON.stringify({ title, rows: records }, null, 1)}\n`], {
    type: 'application/json',
  });
}

async function makeImage(svg: string, format: SaveOptions['format']): Promise<Blob | null> {
  const file = svgFile(svg);
  return format === 'SVG' ? file : toPng(file);
}

// The browser draws the SVG as an image, which runs no script and loads nothing.
async function toPng(svg: Blob): Promise<Blob | null> {
  const address = URL.createObjectURL(svg);
  try {
    const image = new Image();
    image.src = address;
    await image.decode();
    const canvas = document.createElement('canvas');
    canvas.width = Math.round(image.naturalWidth * PNG_SCALE);
    canvas.height = Math.round(image.naturalHeight * PNG_SCALE);
    canvas.getContext('2d')?.drawImage(image, 0, 0, canvas.width, canvas.height);
    return await new Promise((done) => canvas.toBlob(done, 'image/png'));
  } finally {
    URL.revokeObjectURL(address);
  }
}
