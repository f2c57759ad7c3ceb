// A figure: a plot with a readout by pointer and keyboard, switches, files, and the same as a table.

import { useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks';
import { csv } from '../shared/csv';
import { Files } from '../shared/files';
import { Grid } from '../shared/grid';
import { bareName, csvFile } from '../shared/save';
import type { Mode } from '../shared/theme';
import { BarsArea } from './bars';
import { figureFile } from './file';
import { HeatmapArea } from './heatmap';
import { LinesArea } from './lines';
import { long } from './numbers';
import { Prose } from './page';
import { onPage } from './paint';
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

export function Figure({ plot, title, shown, change, height = 250, of }: FigureProps) {
  const box = useRef<HTMLElement>(null);
  const width = useWidth(box);
  const mode = useMode();
  const paint = useMemo(() => onPage(mode), [mode]);
  const name = plain(title);
  const whole = of ? `${of}: ${name.toLowerCase()}` : name;
  const table = useMemo(() => tableOf(plot, whole), [plot, whole]);
  const area = { title: name, shown, change, paint, width, height };
  return (
    <figure class={plot.kind === 'heatmap' ? 'figure map' : 'figure'} ref={box}>
      <figcaption>
        <strong>
          <bdi>{name}</bdi>
        </strong>
        <span class="tools">
          <LogSwitches {...{ plot, shown, change }} />
          <Switch name="table" on={shown.table} set={(on) => change({ ...shown, table: on })} />
          <Files
            name={bareName(whole)}
            what="this figure"
            files={[
              ['SVG', () => figureFile({ title: whole, plot, shown, width, height }, mode)],
              ['CSV', () => csvFile(csv(spelled(table)))], // with hidden values too
            ]}
          />
        </span>
      </figcaption>
      {shown.table ? (
        <Grid
          look="scroll"
          table={table}
          rowNames={plot.kind === 'heatmap'}
          name={(text) => <Prose text={text} />}
          cell={(value) => (typeof value === 'number' ? digits(value) : plain(value))}
        />
      ) : width === 0 ? null : plot.kind === 'lines' ? (
        <LinesArea plot={plot} {...area} />
      ) : plot.kind === 'bars' ? (
        <BarsArea plot={plot} {...area} />
      ) : (
        <HeatmapArea plot={plot} {...area} />
      )}
    </figure>
  );
}

type SwitchesProps = Pick<FigureProps, 'plot' | 'shown' | 'change'>;

function LogSwitches({ plot, shown, change }: SwitchesProps) {
  if (plot.kind === 'heatmap') return null;
  if (plot.kind === 'bars') {
    if (!positive(plot.values.map(({ value }) => value))) return null;
    return <Switch name="log" on={shown.yLog ?? false} set={(yLog) => change({ ...shown, yLog })} />;
  }
  const points = plot.series.flatMap((series) => series.points);
  const [xLog, yLog] = [shown.xLog ?? plot.xLog, shown.yLog ?? plot.yLog];
  return (
    <>
      {positive(points.map(({ x }) => x)) && (
        <Switch name="log x" on={xLog} set={(on) => change({ ...shown, xLog: on })} />
      )}
      {positive(points.map(({ y }) => y)) && (
        <Switch name="log y" on={yLog} set={(on) => change({ ...shown, yLog: on })} />
      )}
    </>
  );
}

// A negative value has no logarithm.
function positive(values: number[]): boolean {
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

// The colors of a map are no variables: it is drawn again when the page turns dark or goes to paper.
function useMode(): Mode {
  const root = document.documentElement;
  const paper = window.matchMedia('print');
  const read = (): Mode =>
    root.dataset.attnlabTheme === 'dark' && !paper.matches ? 'dark' : 'light';
  const [mode, setMode] = useState(read);
  useLayoutEffect(() => {
    const again = (): void => setMode(read());
    const observer = new MutationObserver(again);
    observer.observe(root, { attributes: true });
    paper.addEventListener('change', again);
    again();
    return () => {
      observer.disconnect();
      paper.removeEventListener('change', again);
    };
  }, []);
  return mode;
}

function digits(value: number): string {
  if (Number.isNaN(value)) return 'NaN'; // an empty cell is a missing value
  return Number.isFinite(value) ? String(value).replace(/-/g, '−') : long(value);
}
