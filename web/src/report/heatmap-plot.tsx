// A heatmap: colored cells with names of rows and columns, a legend and a readout.

import { useMemo, useState } from 'preact/hooks';
import { theme } from '../shared/theme';
import {
  cellAt,
  cellColor,
  valueColor,
  fitCellText,
  textColorOn,
  legendTexts,
  describeCell,
  colorScale,
  nextCell,
  type CellPosition,
  type ColorScale,
} from './heatmap-colors';
import type { PlotProps } from './line-plot';
import { FormattedText } from './page-frame';
import type { PlotColors } from './plot-colors';
import type { Heatmap } from './plot-data';
import { plainText } from './text-format';

export const CELL_HEIGHT = 30; // pixels high
const LETTER_WIDTH = 7;
const MAX_CELLS_WITH_TEXT = 3000;
const RAMP_STEPS = 24;

export function HeatmapPlot({ plot, title, paint, width }: PlotProps<Heatmap>) {
  const [at, setAt] = useState<CellPosition | null>(null);
  const scale = useMemo(() => colorScale(plot), [plot]);
  const press = (event: KeyboardEvent): void => {
    const next = nextCell(event.key, at, plot);
    if (next === undefined || !plot.rows.length || !plot.columns.length) return;
    event.preventDefault();
    setAt(next);
  };
  const point = (event: PointerEvent): void => {
    const box = (event.currentTarget as HTMLElement).getBoundingClientRect();
    const x = (event.clientX - box.left) / box.width;
    setAt(cellAt(plot, x, (event.clientY - box.top) / box.height));
  };
  const read = at && plainText(describeCell(plot, at));
  const names = Math.min(0.42 * width, longestNameWidth(plot.rows));
  const plotWidth = Math.max(1, Math.floor(width - names - 10));
  const interval = labelInterval(plot, plotWidth);
  const height = CELL_HEIGHT * plot.rows.length;
  const drawing = useMemo(
    () => <HeatmapDrawing {...{ map: plot, scale, paint }} width={plotWidth} />,
    [plot, scale, paint, plotWidth],
  );
  return (
    <>
      <div class="axis-name">
        <FormattedText text={`${plot.z}, by ${plot.y}`} />
      </div>
      <div class="map-grid" style={{ gridTemplateColumns: `${names}px ${plotWidth}px` }}>
        <div class="map-rows" style={{ gridAutoRows: `${CELL_HEIGHT}px` }} aria-hidden="true">
          {plot.rows.map((name, i) => (
            <span key={i} class={at?.row === i ? 'on' : ''} title={plainText(name)}>
              <FormattedText text={name} />
            </span>
          ))}
        </div>
        <div
          class="area"
          tabIndex={0}
          role="application"
          aria-roledescription="map"
          aria-label={`${title}. ${plainText(plot.z)} by ${plainText(plot.y)} and ${plainText(plot.x)}. Arrow keys read the values.`}
          onKeyDown={press}
          onPointerMove={point}
          onPointerDown={point}
          onPointerLeave={(event) => event.pointerType === 'mouse' && setAt(null)}
        >
          <svg viewBox={`0 0 ${plotWidth} ${height}`} height={height} aria-hidden="true">
            {drawing}
            {at && <SelectedCell {...{ map: plot, at, paint }} width={plotWidth} />}
          </svg>
        </div>
        <div class="map-columns number" aria-hidden="true">
          {plot.columns.map((name, i) => (
            <span key={i} class={at?.column === i ? 'on' : ''}>
              {(at ? at.column === i || (i % interval === 0 && Math.abs(at.column - i) >= interval) : i % interval === 0) &&
                plainText(name)}
            </span>
          ))}
        </div>
      </div>
      <div class="axis-name below">
        <FormattedText text={plot.x} />
      </div>
      {plot.names.length ? <Names map={plot} paint={paint} /> : <Ramp {...{ scale, paint }} />}
      <p class="map-read number">{read ?? '\u00a0'}</p>
      <span class="quiet" aria-live="polite">
        {read}
      </span>
    </>
  );
}

export function longestNameWidth(names: string[]): number {
  return names.reduce((most, name) => Math.max(most, name.length), 1) * (LETTER_WIDTH + 1) + 6;
}

// Shows only every nth column name if not all fit; returns n.
export function labelInterval({ columns }: Heatmap, width: number): number {
  return Math.max(1, Math.ceil((longestNameWidth(columns) * columns.length) / width));
}

interface DrawingProps {
  map: Heatmap;
  scale: ColorScale;
  paint: PlotColors;
  width: number;
}

// The cells, on the page and in a file: one path per color.
export function HeatmapDrawing({ map, scale, paint, width }: DrawingProps) {
  const w = width / map.columns.length;
  const gap = w > 10 ? 1 : 0;
  const paths = new Map<string, string[]>();
  const texts: { x: number; y: number; text: string; ink: string }[] = [];
  const withTexts = map.rows.length * map.columns.length <= MAX_CELLS_WITH_TEXT;
  map.values.forEach((row, i) =>
    row.forEach((value, j) => {
      const background = cellColor(map, scale, value, paint.mode);
      if (!paths.has(background)) paths.set(background, []);
      paths.get(background)!.push(
        `M${(j * w).toFixed(2)} ${i * CELL_HEIGHT}h${(w - gap).toFixed(2)}v${CELL_HEIGHT - 1}H${(j * w).toFixed(2)}z`,
      );
      const text = withTexts ? plainText(fitCellText(map, value, Math.floor((w - 4) / LETTER_WIDTH))) : '';
      if (text) texts.push({ x: (j + 0.5) * w, y: (i + 0.5) * CELL_HEIGHT + 4, text, ink: textColorOn(background) });
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

function SelectedCell({ map, at, paint, width }: { map: Heatmap; at: CellPosition; paint: PlotColors; width: number }) {
  const w = width / map.columns.length;
  return (
    <rect
      x={at.column * w + 1}
      y={at.row * CELL_HEIGHT + 1}
      width={Math.max(1, w - 3)}
      height={CELL_HEIGHT - 3}
      fill="none"
      stroke={paint.color('ink')}
      stroke-width={2}
    />
  );
}

// Colors from one end of the scale to the other.
export function rampColors(scale: ColorScale, paint: PlotColors): string[] {
  return Array.from({ length: RAMP_STEPS + 1 }, (_, i) =>
    valueColor(scale, scale.scale.invert(i / RAMP_STEPS), paint.mode),
  );
}

function Ramp({ scale, paint }: { scale: ColorScale; paint: PlotColors }) {
  return (
    <div class="map-ramp number">
      <div
        class="bar"
        style={{ background: `linear-gradient(to right, ${rampColors(scale, paint).join(', ')})` }}
      />
      <div class="stops">
        {legendTexts(scale).map((text, i) => (
          <span key={i}>{text}</span>
        ))}
      </div>
    </div>
  );
}

function Names({ map, paint }: { map: Heatmap; paint: PlotColors }) {
  return (
    <div class="map-names">
      {map.names.map((name, i) => (
        <span key={i}>
          <i style={{ background: theme(paint.mode).color(`head${i}`) }} aria-hidden="true" />
          <FormattedText text={name} />
        </span>
      ))}
    </div>
  );
}
