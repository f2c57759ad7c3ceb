// A map on a canvas, with its legend, a readout by pointer and keyboard, and the same as a table.

import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { theme, type Mode, type Theme } from '../shared/theme';
import {
  cellAt,
  cellColour,
  colourAt,
  inCell,
  inkOn,
  legendOf,
  readout,
  scaleOf,
  stepped,
  told,
  type Heatmap,
  type Place,
  type Scale,
} from './heat';
import { Prose } from './page';
import { plain } from './prose';

export interface MapProps {
  map: Heatmap;
  title: string;
  mode: Mode;
  table: boolean;
  change: (table: boolean) => void;
}

const CELL = 30; // pixels high
const LETTER = 7;

export function MapFigure({ map, title, mode, table, change }: MapProps) {
  const said = plain(title);
  return (
    <figure class="figure map">
      <figcaption>
        <strong>
          <bdi>{said}</bdi>
        </strong>
        <span class="tools">
          <button type="button" aria-pressed={table} onClick={() => change(!table)}>
            table
          </button>
        </span>
      </figcaption>
      {table ? <MapTable map={map} title={said} /> : <MapArea {...{ map, title: said, mode }} />}
    </figure>
  );
}

function MapArea({ map, title, mode }: { map: Heatmap; title: string; mode: Mode }) {
  const [at, setAt] = useState<Place | null>(null);
  const colours = theme(mode);
  const scale = useMemo(() => scaleOf(map), [map]);
  const press = (event: KeyboardEvent): void => {
    const next = stepped(event.key, at, map);
    if (next === undefined || !map.rows.length || !map.columns.length) return;
    event.preventDefault();
    setAt(next);
  };
  const point = (event: PointerEvent): void => {
    const box = (event.currentTarget as HTMLElement).getBoundingClientRect();
    const x = (event.clientX - box.left) / box.width;
    setAt(cellAt(map, x, (event.clientY - box.top) / box.height));
  };
  const read = at && plain(readout(map, at));
  return (
    <>
      <div class="axis-name">
        <Prose text={`${map.z}, by ${map.y}`} />
      </div>
      <div class="map-grid">
        <div class="map-rows" style={{ gridAutoRows: `${CELL}px` }} aria-hidden="true">
          {map.rows.map((name, i) => (
            <span key={i} class={at?.row === i ? 'on' : ''} title={plain(name)}>
              <Prose text={name} />
            </span>
          ))}
        </div>
        <div
          class="area"
          tabIndex={0}
          role="application"
          aria-roledescription="map"
          aria-label={`${title}. ${plain(map.z)} by ${plain(map.y)} and ${plain(map.x)}. Arrow keys read the values.`}
          onKeyDown={press}
          onPointerMove={point}
          onPointerDown={point}
          onPointerLeave={(event) => event.pointerType === 'mouse' && setAt(null)}
        >
          <Canvas {...{ map, scale, colours, at }} />
        </div>
        <Columns map={map} at={at} />
      </div>
      <div class="axis-name below">
        <Prose text={map.x} />
      </div>
      {map.names.length ? <Names map={map} colours={colours} /> : <Ramp {...{ scale, colours }} />}
      <p class="map-read number">{read ?? '\u00a0'}</p>
      <span class="quiet" aria-live="polite">
        {read}
      </span>
    </>
  );
}

// Every second or third name where they would not fit.
function Columns({ map, at }: { map: Heatmap; at: Place | null }) {
  const box = useRef<HTMLDivElement>(null);
  const width = useSize(box);
  const longest = Math.max(1, ...map.columns.map((name) => name.length)) * LETTER + 6;
  const every = Math.max(1, Math.ceil((longest * map.columns.length) / Math.max(width, 1)));
  return (
    <div class="map-columns number" ref={box} aria-hidden="true">
      {map.columns.map((name, i) => (
        <span key={i} class={at?.column === i ? 'on' : ''}>
          {(at ? at.column === i || (i % every === 0 && Math.abs(at.column - i) >= every) : i % every === 0) &&
            plain(name)}
        </span>
      ))}
    </div>
  );
}

interface CanvasProps {
  map: Heatmap;
  scale: Scale;
  colours: Theme;
  at: Place | null;
}

function Canvas({ map, scale, colours, at }: CanvasProps) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const width = useSize(canvas);
  const height = CELL * map.rows.length;
  useEffect(() => {
    const element = canvas.current;
    const context = element?.getContext('2d');
    if (!element || !context || !width) return;
    const dense = Math.min(window.devicePixelRatio || 1, 4);
    element.width = Math.round(width * dense);
    element.height = Math.round(height * dense);
    context.setTransform(dense, 0, 0, dense, 0, 0);
    paint(context, { map, scale, colours, at }, width, height);
  }, [map, scale, colours, at, width, height]);
  return <canvas ref={canvas} style={{ height: `${height}px` }} aria-hidden="true" />;
}

function paint(
  context: CanvasRenderingContext2D,
  { map, scale, colours, at }: CanvasProps,
  width: number,
  height: number,
): void {
  const [w, h] = [width / map.columns.length, CELL];
  context.clearRect(0, 0, width, height);
  context.font = '12px system-ui, -apple-system, "Segoe UI", Roboto, sans-serif';
  context.textAlign = 'center';
  context.textBaseline = 'middle';
  const gap = w > 10 ? 1 : 0;
  map.values.forEach((row, i) =>
    row.forEach((value, j) => {
      const ground = cellColour(map, scale, value, colours);
      context.fillStyle = ground;
      context.fillRect(j * w, i * h, w - gap, h - 1);
      const shown = plain(inCell(map, value, Math.floor((w - 4) / LETTER)));
      if (!shown) return;
      context.fillStyle = inkOn(ground);
      context.fillText(shown, (j + 0.5) * w, (i + 0.5) * h);
    }),
  );
  if (!at) return;
  context.strokeStyle = colours.colour('ink');
  context.lineWidth = 2;
  context.strokeRect(at.column * w + 1, at.row * h + 1, w - 2 - gap, h - 3);
}

function Ramp({ scale, colours }: { scale: Scale; colours: Theme }) {
  const stops = legendOf(scale);
  const value = (share: number): number =>
    scale.log
      ? scale.low * (scale.high / scale.low) ** share
      : scale.low + (scale.high - scale.low) * share;
  const steps = Array.from({ length: 25 }, (_, i) => colourAt(scale, value(i / 24), colours));
  return (
    <div class="map-ramp number">
      <div class="bar" style={{ background: `linear-gradient(to right, ${steps.join(', ')})` }} />
      <div class="stops">
        {stops.map(({ text }, i) => (
          <span key={i}>{text}</span>
        ))}
      </div>
    </div>
  );
}

function Names({ map, colours }: { map: Heatmap; colours: Theme }) {
  return (
    <div class="map-names">
      {map.names.map((name, i) => (
        <span key={i}>
          <i style={{ background: colours.colour(`head${i}`) }} aria-hidden="true" />
          <Prose text={name} />
        </span>
      ))}
    </div>
  );
}

function MapTable({ map, title }: { map: Heatmap; title: string }) {
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label={`${title}: values`}>
      <table>
        <caption>
          <Prose text={`${map.z}, by ${map.y} and ${map.x}`} />
        </caption>
        <thead>
          <tr>
            <th scope="col">
              <Prose text={map.y} />
            </th>
            {map.columns.map((name, j) => (
              <th key={j} scope="col" class="number">
                {plain(name)}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {map.rows.map((name, i) => (
            <tr key={i}>
              <th scope="row">
                <Prose text={name} />
              </th>
              {map.values[i].map((value, j) => (
                <td key={j} class="number">
                  {plain(told(map, value, true))}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function useSize(box: { current: HTMLElement | null }): number {
  const [width, setWidth] = useState(0);
  useEffect(() => {
    const read = (): void => setWidth(Math.floor(box.current?.clientWidth ?? 0));
    read();
    const observer = new ResizeObserver(read);
    if (box.current) observer.observe(box.current);
    return () => observer.disconnect();
  }, []);
  return width;
}
