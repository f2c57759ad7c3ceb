// A line plot. Its legend is also the readout, so nothing covers the plot.

import { useMemo, useRef, useState } from 'preact/hooks';
import { headColor } from '../shared/theme';
import { linesLayout, nearestStop, pointsAt, type Layout } from './line-layout';
import { FormattedText } from './page-frame';
import { lineStyle, type PlotColors } from './plot-colors';
import { formatEstimate, numberFormat, type Lines, type Mark } from './plot-data';
import { flatText } from './math-text';
import { plainText } from './text-format';
import { toggleHidden, type FigureOptions } from './figure-options';

const MAX_DOTS = 40; // a line with more points has no dots

export interface PlotProps<P> {
  plot: P;
  title: string;
  options: FigureOptions;
  change: (options: FigureOptions) => void;
  paint: PlotColors;
  width: number;
  height: number;
}

export function LinePlot({ plot, title, options, change, paint, width, height }: PlotProps<Lines>) {
  const layout = useMemo(
    () => linesLayout(plot, options, width, height),
    [plot, options, width, height],
  );
  const drawing = useMemo(() => <LinesDrawing {...{ layout, paint }} />, [layout, paint]);
  const [stop, setStop] = useState<number | null>(null);
  const at = stop === null ? null : (layout.stops[Math.min(stop, layout.stops.length - 1)] ?? null);
  const box = useRef<SVGSVGElement>(null);
  const point = (event: PointerEvent): void => {
    const left = box.current?.getBoundingClientRect().left ?? 0;
    const next = nearestStop(layout, event.clientX - left);
    setStop(next < 0 ? null : next);
  };
  const press = (event: KeyboardEvent): void => {
    const last = layout.stops.length - 1;
    const next = nextIndex(event.key, stop, last);
    if (next === undefined || last < 0) return;
    event.preventDefault();
    setStop(next);
  };
  const { skipped } = layout;
  return (
    <>
      <div class="axis-name">
        <FormattedText text={plot.y} />
      </div>
      <div
        class="area"
        tabIndex={0}
        role="application"
        aria-roledescription="plot"
        aria-label={`${title}. ${summary(plot)} Arrow keys read the values.`}
        onKeyDown={press}
        onPointerMove={point}
        onPointerDown={point}
        onPointerLeave={(event) => event.pointerType === 'mouse' && setStop(null)}
      >
        <svg ref={box} height={height} viewBox={`0 0 ${width} ${height}`} aria-hidden="true">
          {drawing}
          <ReadoutMarks {...{ layout, paint, at }} near={plot.nearest} />
        </svg>
      </div>
      <div class="axis-name below number">
        <FormattedText text={plot.x} />
        {at !== null && `: ${numberFormat(plot.xPercent)(at)}`}
      </div>
      <Legend {...{ plot, layout, options, change, paint, at }} />
      {skipped > 0 && (
        <p class="dim small">
          {skipped === 1 ? 'One point is' : `${skipped} points are`} not drawn: not finite, or not
          positive on a logarithmic axis. The table has {skipped === 1 ? 'it' : 'them'}.
        </p>
      )}
    </>
  );
}

export function nextIndex(key: string, at: number | null, last: number): number | null | undefined {
  const now = at ?? -1;
  if (key === 'ArrowRight' || key === 'ArrowDown') return Math.min(last, now + 1);
  if (key === 'ArrowLeft' || key === 'ArrowUp') return at === null ? last : Math.max(0, now - 1);
  if (key === 'PageDown') return Math.min(last, now + 10);
  if (key === 'PageUp') return Math.max(0, now - 10);
  if (key === 'Home') return 0;
  if (key === 'End') return last;
  return key === 'Escape' ? null : undefined;
}

function summary(plot: Lines): string {
  const names = plot.series.map((series) => plainText(series.name)).join(', ');
  return `${plainText(plot.y)} by ${plainText(plot.x)}: ${names}.`;
}

// Axes, lines and marks, on the page and in a file.
export function LinesDrawing({ layout, paint }: { layout: Layout; paint: PlotColors }) {
  const { frame, lines } = layout;
  return (
    <>
      <Axes {...{ layout, paint }} />
      {lines.map(({ index, pen, band }) => band && (
        <path key={index} d={band} fill={paint.color(headColor(pen))} opacity={0.15} />
      ))}
      {lines.map(({ index, pen, ghost }) => ghost && (
        <path
          key={index}
          class="line ghost"
          d={ghost}
          stroke={paint.color(headColor(pen))}
          fill="none"
          opacity={0.35}
        />
      ))}
      {lines.map(({ index, pen, path, whiskers, points }) => (
        <g key={index}>
          <path class="line" d={path} stroke-linejoin="round" {...lineStyle(pen, paint)} />
          {whiskers && (
            <path d={whiskers} stroke={paint.color(headColor(pen))} stroke-width={1.5} fill="none" />
          )}
          {points.length <= MAX_DOTS &&
            points.map(({ x, y }, i) => (
              <circle
                key={i}
                cx={layout.x(x)}
                cy={layout.y(y)}
                r={2.6}
                fill={paint.color(headColor(pen))}
              />
            ))}
        </g>
      ))}
      {layout.marks.map((mark, i) => (
        <MarkDrawing key={i} {...{ mark, frame, paint }} />
      ))}
    </>
  );
}

function Axes({ layout, paint }: { layout: Layout; paint: PlotColors }) {
  const { left, right, bottom } = layout.frame;
  return (
    <g fill={paint.color('dim')} shape-rendering="crispEdges">
      {layout.yTicks.map(({ text, at }) => (
        <g key={at}>
          <path d={`M${left} ${at}H${right}`} stroke={paint.color('rule')} />
          <text x={left - 6} y={at + 4} text-anchor="end">
            {text}
          </text>
        </g>
      ))}
      {layout.xTicks.map(({ text, at }) => (
        <g key={at}>
          <path d={`M${at} ${bottom}v4`} stroke={paint.color('rule')} />
          <text x={at} y={bottom + 18} text-anchor="middle">
            {text}
          </text>
        </g>
      ))}
      <path d={`M${left} ${bottom}H${right}`} stroke={paint.color('dim')} />
    </g>
  );
}

// A mark: its guide lines, a ring where two cross, and its label where there is more space.
function MarkDrawing({ mark, frame, paint }: { mark: Mark; frame: Layout['frame']; paint: PlotColors }) {
  const { left, right, top, bottom } = frame;
  const { x, y, label } = mark;
  const before = x !== null && x > (left + right) / 2;
  const guides = (x === null ? '' : `M${x} ${top}V${bottom}`) + (y === null ? '' : `M${left} ${y}H${right}`);
  return (
    <g fill={paint.color('ink')}>
      <path d={guides} stroke={paint.color('ink')} stroke-dasharray="4 3" shape-rendering="crispEdges" />
      {x !== null && y !== null && (
        <circle cx={x} cy={y} r={4} fill={paint.color('page')} stroke={paint.color('ink')} stroke-width={2} />
      )}
      <text
        x={x === null ? right : x + (before ? -5 : 5)}
        y={y === null ? top + 10 : y < top + 18 ? y + 14 : y - 5}
        text-anchor={x === null || before ? 'end' : 'start'}
        paint-order="stroke"
        stroke={paint.color('page')}
        stroke-width={4}
        stroke-linejoin="round"
      >
        {flatText(label)}
      </text>
    </g>
  );
}

interface ReadoutProps {
  layout: Layout;
  paint: PlotColors;
  at: number | null;
  near?: boolean;
}

// The vertical guide and the points at the readout.
function ReadoutMarks({ layout, paint, at, near }: ReadoutProps) {
  if (at === null) return null;
  const { top, bottom } = layout.frame;
  return (
    <>
      <path
        d={`M${layout.x(at)} ${top}V${bottom}`}
        stroke={paint.color('dim')}
        shape-rendering="crispEdges"
      />
      {layout.lines.flatMap(({ index, pen, points }) =>
        pointsAt(points, at, near).map(({ x, y }, i) => (
          <circle
            key={`${index} ${i}`}
            cx={layout.x(x)}
            cy={layout.y(y)}
            r={4.5}
            fill={paint.color(headColor(pen))}
            stroke={paint.color('page')}
            stroke-width={1.5}
          />
        )),
      )}
    </>
  );
}

interface LegendProps {
  plot: Lines;
  layout: Layout;
  options: FigureOptions;
  change: (options: FigureOptions) => void;
  paint: PlotColors;
  at: number | null;
}

function Legend({ plot, layout, options, change, paint, at }: LegendProps) {
  const [writeX, writeY] = [numberFormat(plot.xPercent), numberFormat(plot.yPercent)];
  const values = plot.series.map((series, index) => {
    if (at === null || options.hidden.includes(index)) return '';
    return pointsAt(series.points, at, plot.nearest)
      .map(({ x, y, low, high }) => {
        const away = x === at ? '' : `, at ${writeX(x)}`;
        return formatEstimate({ value: y, low, high }, writeY) + away;
      })
      .join('; ');
  });
  const read = at === null ? '' : `${plainText(plot.x)}: ${writeX(at)}`;
  const spoken = plot.series.map((each, i) => values[i] && `${plainText(each.name)} ${values[i]}`);
  return (
    <div class="legend">
      {!layout.stops.length && <span class="at">There are no points to draw.</span>}
      {plot.series.map((series, index) => (
        <>
          <button
            key={index}
            type="button"
            aria-pressed={!options.hidden.includes(index)}
            title="Show or hide"
            onClick={() => change(toggleHidden(options, index))}
          >
            <svg viewBox="0 0 26 10" aria-hidden="true">
              <path d="M0 5H26" {...lineStyle(series.pen ?? index, paint)} />
            </svg>
            {series.literal ? <bdi>{plainText(series.name)}</bdi> : <FormattedText text={series.name} />}
          </button>
          <span class="value">{values[index]}</span>
        </>
      ))}
      <span class="quiet" aria-live="polite">
        {read && `${read}. ${spoken.filter(Boolean).join('. ')}`}
      </span>
    </div>
  );
}
