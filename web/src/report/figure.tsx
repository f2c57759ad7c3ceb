// A figure: lines or bars, a readout by pointer and keyboard, switches, and the same as a table.

import { useLayoutEffect, useRef, useState } from 'preact/hooks';
import { BarsArea } from './bars';
import { LinesArea } from './lines';
import { long } from './numbers';
import { Prose } from './page';
import { tableOf, type Plot } from './plot';
import { plain } from './prose';
import type { Shown } from './shown';

export interface FigureProps {
  plot: Plot;
  title: string;
  shown: Shown;
  change: (shown: Shown) => void;
  height?: number;
}

export function Figure({ plot, title, shown, change, height = 250 }: FigureProps) {
  const box = useRef<HTMLElement>(null);
  const width = useWidth(box);
  const said = plain(title);
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
          <Switch name="table" on={shown.table} set={(table) => change({ ...shown, table })} />
        </span>
      </figcaption>
      {shown.table ? (
        <ValueTable plot={plot} title={said} />
      ) : lines ? (
        width > 0 && <LinesArea {...{ plot, title: said, shown, change, width, height }} />
      ) : (
        <BarsArea {...{ plot, title: said, shown }} />
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

function useWidth(box: { current: HTMLElement | null }): number {
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

// Every value with all its digits.
function ValueTable({ plot, title }: { plot: Plot; title: string }) {
  const { header, rows } = tableOf(plot);
  const numeric = header.map((_, i) => rows.every((row) => typeof row[i] === 'number'));
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label={`${title}: values`}>
      <table>
        <thead>
          <tr>
            {header.map((name, i) => (
              <th key={i} scope="col" class={numeric[i] ? 'number' : ''}>
                <Prose text={name} />
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row, i) => (
            <tr key={i}>
              {row.map((cell, j) => (
                <td key={j} class={numeric[j] ? 'number' : ''}>
                  {typeof cell === 'number' ? digits(cell) : plain(cell)}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function digits(value: number): string {
  return Number.isFinite(value) ? String(value).replace(/-/g, '−') : long(value);
}
