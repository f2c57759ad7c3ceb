// A map: colored cells with the names of rows and columns, a legend and a readout.

import { useMemo, useState } from 'preact/hooks';
import { theme } from '../shared/theme';
import {
  cellAt,
  cellColor,
  colorAt,
  inCell,
  inkOn,
  legendOf,
  readout,
  sharesOf,
  stepped,
  type Place,
  type Shares,
} from './heat';
import type { AreaProps } from './lines';
import { Prose } from './page';
import type { Paint } from './paint';
import type { Heatmap } from './plot';
import { plain } from './prose';

export const CELL = 30; // pixels high
const LETTER = 7;
const TEXTS = 3000; // cells: of a larger map nothing is written into them
const STEPS = 24;

export function HeatmapArea({ plot, title, paint, width }: AreaProps<Heatmap>) {
  const [at, setAt] = useState<Place | null>(null);
  const shares = useMemo(() => sharesOf(plot), [plot]);
  const press = (event: KeyboardEvent): void => {
    const next = stepped(event.key, at, plot);
    if (next === undefined || !plot.rows.length || !plot.columns.length) return;
    event.preventDefault();
    setAt(next);
  };
  const point = (event: PointerEvent): void => {
    const box = (event.currentTarget as HTMLElement).getBoundingClientRect();
    const x = (event.clientX - box.left) / box.width;
    setAt(cellAt(plot, x, (event.clientY - box.top) / box.height));
  };
  const read = at && plain(readout(plot, at));
  const names = Math.min(0.42 * width, longest(plot.rows));
  const own = Math.max(1, Math.floor(width - names - 10));
  const every = everyOf(plot, own);
  const height = CELL * plot.rows.length;
  const drawing = useMemo(
    () => <HeatmapDrawing {...{ map: plot, shares, paint }} width={own} />,
    [plot, shares, paint, own],
  );
  return (
    <>
      <div class="axis-name">
        <Prose text={`${plot.z}, by ${plot.y}`} />
      </div>
      <div class="map-grid" style={{ gridTemplateColumns: `${names}px ${own}px` }}>
        <div class="map-rows" style={{ gridAutoRows: `${CELL}px` }} aria-hidden="true">
          {plot.rows.map((name, i) => (
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
          aria-label={`${title}. ${plain(plot.z)} by ${plain(plot.y)} and ${plain(plot.x)}. Arrow keys read the values.`}
          onKeyDown={press}
          onPointerMove={point}
          onPointerDown={point}
          onPointerLeave={(event) => event.pointerType === 'mouse' && setAt(null)}
        >
          <svg viewBox={`0 0 ${own} ${height}`} height={height} aria-hidden="true">
            {drawing}
            {at && <Chosen {...{ map: plot, at, paint }} width={own} />}
          </svg>
        </div>
        <div class="map-columns number" aria-hidden="true">
          {plot.columns.map((name, i) => (
            <span key={i} class={at?.column === i ? 'on' : ''}>
              {(at ? at.column === i || (i % every === 0 && Math.abs(at.column - i) >= every) : i % every === 0) &&
                plain(name)}
            </span>
          ))}
        </div>
      </div>
      <div class="axis-name below">
        <Prose text={plot.x} />
      </div>
      {plot.names.length ? <Names map={plot} paint={paint} /> : <Ramp {...{ shares, paint }} />}
      <p class="map-read number">{read ?? '\u00a0'}</p>
      <span class="quiet" aria-live="polite">
        {read}
      </span>
    </>
  );
}

export function longest(names: string[]): number {
  return names.reduce((most, name) => Math.max(most, name.length), 1) * (LETTER + 1) + 6;
}

// Every second or third name where not all of them have room.
export function everyOf({ columns }: Heatmap, width: number): number {
  return Math.max(1, Math.ceil((longest(columns) * columns.length) / width));
}

interface DrawingProps {
  map: Heatmap;
  shares: Shares;
  paint: Paint;
  width: number;
}

// The cells, on the page and in a file: one path for each color, however many cells there are.
export function HeatmapDrawing({ map, shares, paint, width }: DrawingProps) {
  const w = width / map.columns.length;
  const gap = w > 10 ? 1 : 0;
  const paths = new Map<string, string[]>();
  const texts: { x: number; y: number; text: string; ink: string }[] = [];
  const written = map.rows.length * map.columns.length <= TEXTS;
  map.values.forEach((row, i) =>
    row.forEach((value, j) => {
      const ground = cellColor(map, shares, value, paint.mode);
      if (!paths.has(ground)) paths.set(ground, []);
      paths.get(ground)!.push(
        `M${(j * w).toFixed(2)} ${i * CELL}h${(w - gap).toFixed(2)}v${CELL - 1}H${(j * w).toFixed(2)}z`,
      );
      const text = written ? plain(inCell(map, value, Math.floor((w - 4) / LETTER))) : '';
      if (text) texts.push({ x: (j + 0.5) * w, y: (i + 0.5) * CELL + 4, text, ink: inkOn(ground) });
    }),
  );
  return (
    <>
      {[...paths].map(([color, path]) => (
        <path key={color} class="cells" fill={color} d={path.join('')} />
      ))}
      {texts.map(({ x, y, text, ink }, i) => (
        <text key={i} {...{ x, y }} fill={ink} text-anchor="middle">
          {text}
        </text>
      ))}
    </>
  );
}

function Chosen({ map, at, paint, width }: { map: Heatmap; at: Place; paint: Paint; width: number }) {
  const w = width / map.columns.length;
  return (
    <rect
      x={at.column * w + 1}
      y={at.row * CELL + 1}
      width={Math.max(1, w - 3)}
      height={CELL - 3}
      fill="none"
      stroke={paint.color('ink')}
      stroke-width={2}
    />
  );
}

// Colors from one end to the other.
export function rampOf(shares: Shares, paint: Paint): string[] {
  return Array.from({ length: STEPS + 1 }, (_, i) =>
    colorAt(shares, shares.scale.invert(i / STEPS), paint.mode),
  );
}

function Ramp({ shares, paint }: { shares: Shares; paint: Paint }) {
  return (
    <div class="map-ramp number">
      <div
        class="bar"
        style={{ background: `linear-gradient(to right, ${rampOf(shares, paint).join(', ')})` }}
      />
      <div class="stops">
        {legendOf(shares).map((text, i) => (
          <span key={i}>{text}</span>
        ))}
      </div>
    </div>
  );
}

function Names({ map, paint }: { map: Heatmap; paint: Paint }) {
  return (
    <div class="map-names">
      {map.names.map((name, i) => (
        <span key={i}>
          <i style={{ background: theme(paint.mode).color(`head${i}`) }} aria-hidden="true" />
          <Prose text={name} />
        </span>
      ))}
    </div>
  );
}
