// A figure: lines or bars, a readout by pointer and keyboard, switches, and the same as a table.

import { useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks';
import { csv } from '../shared/csv';
import { measurer } from '../shared/fonts';
import { bareName, csvFile, svgFile } from '../shared/save';
import { svg } from '../look/svg';
import { theme, type Theme } from '../shared/theme';
import { Files } from '../shared/files';
import { Grid } from '../shared/grid';
import type { Drawing, Table } from '../look/view';
import { BarsArea } from './bars';
import { drawn } from './drawing';
import { LinesArea } from './lines';
import { long } from './numbers';
import { Prose } from './page';
import { spelled, tableOf, type Plot } from './plot';
import { plain } from './prose';
import type { Shown } from './shown';

type Box = { current: HTMLElement | null };

export interface FigureProps {
  plot: Plot;
  title: string;
  shown: Shown;
  change: (shown: Shown) => void;
  height?: number;
  of?: string; // what it belongs to, for its files; else they are called as the title is
}

const measure = measurer(document.createElement('canvas').getContext('2d'));

export function Figure({ plot, title, shown, change, height = 250, of }: FigureProps) {
  const box = useRef<HTMLElement>(null);
  const width = useWidth(box);
  const said = plain(title);
  const whole = of ? `${of}: ${said.toLowerCase()}` : said;
  const table = useMemo(() => tableOf(plot, whole), [plot, whole]);
  const drawing = (): Drawing => drawn({ title: whole, plot }, shown, width, height, measure);
  const lines = plot.kind === 'lines';
  return (
    <figure class="figure" ref={box}>
      <figcaption>
        <strong>
          <bdi>{said}</bdi>
        </strong>
        <span class="tools">
          {positive(plot, 'x') && lines && (
            <Switch
              name="log x"
              on={shown.xLog ?? plot.xLog}
              set={(xLog) => change({ ...shown, xLog })}
            />
          )}
          {positive(plot, 'y') && (
            <Switch
              name={lines ? 'log y' : 'log'}
              on={shown.yLog ?? (lines && plot.yLog)}
              set={(yLog) => change({ ...shown, yLog })}
            />
          )}
          <Switch name="table" on={shown.table} set={(on) => change({ ...shown, table: on })} />
          <Taken name={bareName(whole)} {...{ table, drawing, box }} />
        </span>
      </figcaption>
      {shown.table ? (
        <Grid
          look="scroll"
          table={table}
          name={(text) => <Prose text={text} />}
          cell={(value) => (typeof value === 'number' ? digits(value) : plain(value))}
        />
      ) : lines ? (
        width > 0 && <LinesArea {...{ plot, title: said, shown, change, width, height }} />
      ) : (
        <BarsArea {...{ plot, title: said, shown, change }} />
      )}
    </figure>
  );
}

// What lies below nothing has no logarithm.
function positive(plot: Plot, side: 'x' | 'y'): boolean {
  const values =
    plot.kind === 'bars'
      ? plot.values.map((bar) => bar.value)
      : plot.series.flatMap((series) => series.points.map((point) => point[side]));
  return values.some((value) => value > 0) && !values.some((value) => value < 0);
}

function Switch({ name, on, set }: { name: string; on: boolean; set: (on: boolean) => void }) {
  return (
    <button type="button" aria-pressed={on} onClick={() => set(!on)}>
      {name}
    </button>
  );
}

function useWidth(box: Box): number {
  const [width, setWidth] = useState(0);
  useLayoutEffect(() => {
    const read = (): void => setWidth(Math.floor(box.current?.clientWidth ?? 0));
    read();
    const observer = new ResizeObserver(read);
    if (box.current) observer.observe(box.current);
    return () => observer.disconnect();
  }, []);
  return width;
}

// Files of what is shown; a table has every value, hidden or not.
function Taken(props: { name: string; table: Table; drawing: () => Drawing; box: Box }) {
  const { name, table, drawing, box } = props;
  const colours = (): Theme => theme(box.current?.closest('.attnlab[data-theme="dark"]') ? 'dark' : 'light');
  const picture = (): Blob => svgFile(svg(drawing(), table.title, colours(), measure));
  return (
    <Files
      name={name}
      what="this figure"
      files={[
        ['SVG', picture],
        ['CSV', () => csvFile(csv(spelled(table)))],
      ]}
    />
  );
}

function digits(value: number): string {
  if (Number.isNaN(value)) return 'NaN'; // what is missing is an empty cell
  return Number.isFinite(value) ? String(value).replace(/-/g, '−') : long(value);
}
