// A figure: a plot with a readout by pointer and keyboard, options, downloads, and a table view.

import { useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks';
import { DataTable } from '../shared/data-table';
import { toFileName } from '../shared/download';
import { COLUMN_PIXELS, SaveFigure } from '../shared/save-figure';
import type { Mode } from '../shared/theme';
import { BarPlot } from './bar-plot';
import { figureSvg } from './svg-file';
import { HeatmapPlot } from './heatmap-plot';
import { LinePlot } from './line-plot';
import { formatLong } from './number-format';
import { FormattedText } from './page-frame';
import { pageColors } from './plot-colors';
import { spellSpecialNumbers, plotTable, type Plot } from './plot-data';
import { plainText } from './text-format';
import type { FigureOptions } from './figure-options';

type Box = { current: HTMLElement | null };

export interface FigureProps {
  plot: Plot;
  title: string;
  options: FigureOptions;
  change: (options: FigureOptions) => void;
  height?: number;
  owner?: string; // part of the names of its files, before the title
}

export function Figure({ plot, title, options, change, height = 250, owner }: FigureProps) {
  const box = useRef<HTMLElement>(null);
  const width = useWidth(box);
  const mode = useMode();
  const paint = useMemo(() => pageColors(mode), [mode]);
  const name = plainText(title);
  const fullTitle = owner ? `${owner}: ${name.toLowerCase()}` : name;
  const table = useMemo(() => plotTable(plot, fullTitle), [plot, fullTitle]);
  const area = { title: name, options, change, paint, width, height };
  return (
    <figure class={plot.kind === 'heatmap' ? 'figure map' : 'figure'} ref={box}>
      <figcaption>
        <strong>
          <bdi>{name}</bdi>
        </strong>
        <span class="tools">
          <LogSwitches {...{ plot, options, change }} />
          <Switch name="table" on={options.table} set={(on) => change({ ...options, table: on })} />
          <SaveFigure
            name={toFileName(fullTitle)}
            mode={mode}
            svg={({ mode: colors, columns, caption }) =>
              figureSvg(
                { title: caption ? fullTitle : '', plot, options, width: COLUMN_PIXELS[columns], height },
                colors,
              )
            }
            table={() => spellSpecialNumbers(table)} // also with hidden values
          />
        </span>
      </figcaption>
      {options.table ? (
        <DataTable
          look="scroll"
          table={table}
          rowNames={plot.kind === 'heatmap'}
          name={(text) => <FormattedText text={text} />}
          cell={(value) => (typeof value === 'number' ? formatCellNumber(value) : plainText(value))}
        />
      ) : width === 0 ? null : plot.kind === 'lines' ? (
        <LinePlot plot={plot} {...area} />
      ) : plot.kind === 'bars' ? (
        <BarPlot plot={plot} {...area} />
      ) : (
        <HeatmapPlot plot={plot} {...area} />
      )}
    </figure>
  );
}

type SwitchesProps = Pick<FigureProps, 'plot' | 'options' | 'change'>;

function LogSwitches({ plot, options, change }: SwitchesProps) {
  if (plot.kind === 'heatmap') return null;
  if (plot.kind === 'bars') {
    if (!allowLog(plot.values.map(({ value }) => value))) return null;
    return <Switch name="log" on={options.yLog ?? false} set={(yLog) => change({ ...options, yLog })} />;
  }
  const points = plot.series.flatMap((series) => series.points);
  const [xLog, yLog] = [options.xLog ?? plot.xLog, options.yLog ?? plot.yLog];
  return (
    <>
      {allowLog(points.map(({ x }) => x)) && (
        <Switch name="log x" on={xLog} set={(on) => change({ ...options, xLog: on })} />
      )}
      {allowLog(points.map(({ y }) => y)) && (
        <Switch name="log y" on={yLog} set={(on) => change({ ...options, yLog: on })} />
      )}
    </>
  );
}

// Whether a logarithmic axis makes sense: no value is negative.
function allowLog(values: number[]): boolean {
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

// A heatmap has fixed colors, so it is drawn again when the page turns dark or is printed.
export function useMode(): Mode {
  const root = document.documentElement;
  const print = window.matchMedia('print');
  const read = (): Mode =>
    root.dataset.attnlabTheme === 'dark' && !print.matches ? 'dark' : 'light';
  const [mode, setMode] = useState(read);
  useLayoutEffect(() => {
    const update = (): void => setMode(read());
    const observer = new MutationObserver(update);
    observer.observe(root, { attributes: true });
    print.addEventListener('change', update);
    update();
    return () => {
      observer.disconnect();
      print.removeEventListener('change', update);
    };
  }, []);
  return mode;
}

function formatCellNumber(value: number): string {
  if (Number.isNaN(value)) return 'NaN'; // because an empty cell means a missing value
  return Number.isFinite(value) ? String(value).replace(/-/g, '−') : formatLong(value);
}
