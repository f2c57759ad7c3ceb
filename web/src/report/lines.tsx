// Lines. The legend is also the readout, so nothing covers the drawing and nothing jumps.

import { useMemo, useRef, useState } from 'preact/hooks';
import { headColor } from '../shared/theme';
import { linesLayout, nearest, readAt, type Layout } from './layout';
import { Prose } from './page';
import { penOf, type Paint } from './paint';
import { told, writes, type Lines, type Mark } from './plot';
import { flat, plain } from './prose';
import { toggled, type Shown } from './shown';

const DOTS = 40; // at most so many points of a line get a dot

export interface AreaProps<P> {
  plot: P;
  title: string;
  shown: Shown;
  change: (shown: Shown) => void;
  paint: Paint;
  width: number;
  height: number;
}

export function LinesArea({ plot, title, shown, change, paint, width, height }: AreaProps<Lines>) {
  const layout = useMemo(
    () => linesLayout(plot, shown, width, height),
    [plot, shown, width, height],
  );
  const drawing = useMemo(() => <LinesDrawing {...{ layout, paint }} />, [layout, paint]);
  const [stop, setStop] = useState<number | null>(null);
  const at = stop === null ? null : (layout.stops[Math.min(stop, layout.stops.length - 1)] ?? null);
  const box = useRef<SVGSVGElement>(null);
  const point = (event: PointerEvent): void => {
    const left = box.current?.getBoundingClientRect().left ?? 0;
    const next = nearest(layout, event.clientX - left);
    setStop(next < 0 ? null : next);
  };
  const press = (event: KeyboardEvent): void => {
    const last = layout.stops.length - 1;
    const next = moved(event.key, stop, last);
    if (next === undefined || last < 0) return;
    event.preventDefault();
    setStop(next);
  };
  const { left } = layout;
  return (
    <>
      <div class="axis-name">
        <Prose text={plot.y} />
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
          <Read {...{ layout, paint, at }} near={plot.nearest} />
        </svg>
      </div>
      <div class="axis-name below number">
        <Prose text={plot.x} />
        {at !== null && `: ${writes(plot.xPercent)(at)}`}
      </div>
      <Legend {...{ plot, layout, shown, change, paint, at }} />
      {left > 0 && (
        <p class="dim small">
          {left === 1 ? 'One point is' : `${left} points are`} not drawn: not finite, or not
          positive on a logarithmic axis. The table has {left === 1 ? 'it' : 'them'}.
        </p>
      )}
    </>
  );
}

export function moved(key: string, at: number | null, last: number): number | null | undefined {
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
  const names = plot.series.map((series) => plain(series.name)).join(', ');
  return `${plain(plot.y)} by ${plain(plot.x)}: ${names}.`;
}

// Axes, lines and marks, on the page and in a file.
export function LinesDrawing({ layout, paint }: { layout: Layout; paint: Paint }) {
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
          <path class="line" d={path} stroke-linejoin="round" {...penOf(pen, paint)} />
          {whiskers && (
            <path d={whiskers} stroke={paint.color(headColor(pen))} stroke-width={1.5} fill="none" />
          )}
          {points.length <= DOTS &&
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
        <Marked key={i} {...{ mark, frame, paint }} />
      ))}
    </>
  );
}

function Axes({ layout, paint }: { layout: Layout; paint: Paint }) {
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

// A marked place: its guides, a ring where two cross, and its name on the side with more room.
function Marked({ mark, frame, paint }: { mark: Mark; frame: Layout['frame']; paint: Paint }) {
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
        {flat(label)}
      </text>
    </g>
  );
}

interface ReadProps {
  layout: Layout;
  paint: Paint;
  at: number | null;
  near?: boolean;
}

// The guide and the points that are read.
function Read({ layout, paint, at, near }: ReadProps) {
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
        readAt(points, at, near).map(({ x, y }, i) => (
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
  shown: Shown;
  change: (shown: Shown) => void;
  paint: Paint;
  at: number | null;
}

function Legend({ plot, layout, shown, change, paint, at }: LegendProps) {
  const [writeX, writeY] = [writes(plot.xPercent), writes(plot.yPercent)];
  const values = plot.series.map((series, index) => {
    if (at === null || shown.hidden.includes(index)) return '';
    return readAt(series.points, at, plot.nearest)
      .map(({ x, y, low, high }) => {
        const away = x === at ? '' : `, at ${writeX(x)}`;
        return told({ value: y, low, high }, writeY) + away;
      })
      .join('; ');
  });
  const read = at === null ? '' : `${plain(plot.x)}: ${writeX(at)}`;
  const spoken = plot.series.map((each, i) => values[i] && `${plain(each.name)} ${values[i]}`);
  return (
    <div class="legend">
      {!layout.stops.length && <span class="at">Nothing to draw.</span>}
      {plot.series.map((series, index) => (
        <>
          <button
            key={index}
            type="button"
            aria-pressed={!shown.hidden.includes(index)}
            title="Show or hide"
            onClick={() => change(toggled(shown, index))}
          >
            <svg viewBox="0 0 26 10" aria-hidden="true">
              <path d="M0 5H26" {...penOf(series.pen ?? index, paint)} />
            </svg>
            {series.literal ? <bdi>{plain(series.name)}</bdi> : <Prose text={series.name} />}
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
