// Lines: the legend is also the readout, so nothing covers the drawing and nothing jumps.

import { useMemo, useRef, useState } from 'preact/hooks';
import { dashOf, markPlace } from './drawing';
import { linesLayout, nearest, path, readAt, type Layout, type Line } from './layout';
import { long, placeOn } from './numbers';
import { COLOURS, Prose } from './page';
import type { Lines } from './plot';
import { plain } from './prose';
import { toggled, type Shown } from './shown';

const DOTS = 40; // points of a line that are drawn one by one

export const colourOf = (index: number): string => `var(--c${index % COLOURS})`;
const dashes = (index: number): string => dashOf(index).join(' ');

interface Props {
  plot: Lines;
  title: string;
  shown: Shown;
  change: (shown: Shown) => void;
  width: number;
  height: number;
}

export function LinesArea({ plot, title, shown, change, width, height }: Props) {
  const layout = useMemo(
    () => linesLayout(plot, shown, width, height),
    [plot, shown, width, height],
  );
  const [stop, setStop] = useState<number | null>(null);
  const at = stop === null ? null : (layout.stops[Math.min(stop, layout.stops.length - 1)] ?? null);
  const box = useRef<SVGSVGElement>(null);
  const point = (event: PointerEvent): void => {
    const left = box.current?.getBoundingClientRect().left ?? 0;
    const found = nearest(layout, event.clientX - left);
    setStop(found < 0 ? null : found);
  };
  const press = (event: KeyboardEvent): void => {
    const last = layout.stops.length - 1;
    const next = moved(event.key, stop, last);
    if (next === undefined || last < 0) return;
    event.preventDefault();
    setStop(next);
  };
  const left = layout.left;
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
          <Drawn layout={layout} at={at} near={plot.nearest ?? false} />
        </svg>
      </div>
      <div class="axis-name below number">
        <Prose text={plot.x} />
        {at !== null && `: ${long(at)}`}
      </div>
      <Legend {...{ plot, layout, shown, change, at }} />
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

function Drawn({ layout, at, near }: { layout: Layout; at: number | null; near: boolean }) {
  const { left, right, top, bottom } = layout.frame;
  const guide = at === null ? null : placeOn(layout.x, at);
  return (
    <>
      {layout.yTicks.map(({ text, at: y }) => (
        <g key={text}>
          <path class="grid" d={`M${left} ${y}H${right}`} />
          <text x={left - 6} y={y + 4} text-anchor="end">
            {text}
          </text>
        </g>
      ))}
      {layout.xTicks.map(({ text, at: x }) => (
        <g key={text}>
          <path class="grid" d={`M${x} ${bottom}v4`} />
          <text x={x} y={bottom + 18} text-anchor="middle">
            {text}
          </text>
        </g>
      ))}
      <path class="guide" d={`M${left} ${bottom}H${right}`} />
      {layout.lines.map((line) => line.band && (
        <path key={line.index} class="band" d={line.band} fill={colourOf(line.pen)} />
      ))}
      {layout.lines.map((line) => line.ghost.length > 0 && (
        <path key={line.index} class="line ghost" d={path(line.ghost)} stroke={colourOf(line.pen)} />
      ))}
      {layout.lines.map((line) => (
        <path
          key={line.index}
          class="line"
          d={line.path}
          stroke={colourOf(line.pen)}
          stroke-dasharray={dashes(line.pen)}
        />
      ))}
      {layout.lines.map((line) => line.dots.length <= DOTS && (
        <path key={line.index} d={dots(line, 2.6)} fill={colourOf(line.pen)} />
      ))}
      {layout.marks.map((mark, i) => (
        <g key={i}>
          {mark.x !== null && <path class="guide mark" d={`M${mark.x} ${top}V${bottom}`} />}
          {mark.y !== null && <path class="guide mark" d={`M${left} ${mark.y}H${right}`} />}
          <MarkName {...{ mark, layout }} />
        </g>
      ))}
      {guide !== null && <path class="guide" d={`M${guide} ${top}V${bottom}`} />}
      {layout.lines.map((line) =>
        read(line, at, near)
          .map((dot, i) => (
            <circle
              key={`${line.index} ${i}`}
              cx={dot.at[0]}
              cy={dot.at[1]}
              r="4.5"
              fill={colourOf(line.pen)}
              stroke="var(--page)"
              stroke-width="1.5"
            />
          )),
      )}
    </>
  );
}

// The dots that are read.
function read(line: Line, at: number | null, near: boolean): Line['dots'] {
  if (at === null) return [];
  const found = readAt(
    line.dots.map(({ point }) => point),
    at,
    near,
  );
  return line.dots.filter(({ point }) => found.includes(point));
}

function MarkName({ mark, layout }: { mark: Layout['marks'][number]; layout: Layout }) {
  const { x, y, anchor } = markPlace(mark, layout.frame, layout.width);
  return (
    <text class="mark" x={x} y={y} text-anchor={anchor}>
      {plain(mark.label)}
    </text>
  );
}

function dots(line: Line, r: number): string {
  return line.dots
    .map(({ at: [x, y] }) => {
      const half = `a${r} ${r} 0 1 0`;
      return `M${x - r} ${y}${half} ${2 * r} 0${half} ${-2 * r} 0`;
    })
    .join('');
}

interface LegendProps {
  plot: Lines;
  layout: Layout;
  shown: Shown;
  change: (shown: Shown) => void;
  at: number | null;
}

function Legend({ plot, layout, shown, change, at }: LegendProps) {
  const values = plot.series.map((series, index) => {
    if (at === null || shown.hidden.includes(index)) return '';
    return readAt(series.points, at, plot.nearest)
      .map(({ x, y, low, high }) => {
        const away = x === at ? '' : `, at ${long(x)}`;
        if (low === null || high === null) return long(y) + away;
        return `${long(y)} (${long(low)} to ${long(high)})${away}`;
      })
      .join('; ');
  });
  const read = at === null ? '' : `${plain(plot.x)}: ${long(at)}`;
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
              <path
                d="M0 5H26"
                stroke={colourOf(series.pen ?? index)}
                stroke-width="2.5"
                stroke-dasharray={dashes(series.pen ?? index)}
              />
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
