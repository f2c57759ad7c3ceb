// Bars lie, so that names of any length can be read; each ends with its value.

import { useState } from 'preact/hooks';
import { axisOf, levelsOf } from './bars-layout';
import { moved } from './lines';
import { drawable, long, placeOn, short, type Axis } from './numbers';
import { Prose } from './page';
import type { Bar, Bars } from './plot';
import { plain } from './prose';
import { toggled, type Shown } from './shown';

interface Props {
  plot: Bars;
  title: string;
  shown: Shown;
  change: (shown: Shown) => void;
}

export function BarsArea({ plot, title, shown, change }: Props) {
  const [on, setOn] = useState<number | null>(null);
  const log = shown.yLog ?? false;
  const axis = axisOf(plot, shown);
  const levels = levelsOf(plot, log);
  const press = (event: KeyboardEvent): void => {
    const next = moved(event.key, on, plot.values.length - 1);
    if (next === undefined || !plot.values.length) return;
    event.preventDefault();
    setOn(next);
  };
  const read = on === null ? null : plot.values[on];
  return (
    <>
      <div class="axis-name">
        <Prose text={plot.y} />
      </div>
      <div
        class="area bars"
        tabIndex={0}
        role="application"
        aria-roledescription="bars"
        aria-label={`${title}. ${summary(plot)} Arrow keys read the values.`}
        onKeyDown={press}
        onPointerLeave={(event) => event.pointerType === 'mouse' && setOn(null)}
      >
        {plot.values.map((bar, i) => (
          <div
            key={i}
            class={on === i ? 'bar-row on' : 'bar-row'}
            onPointerMove={() => setOn(i)}
            onPointerDown={() => setOn(i)}
          >
            <button
              type="button"
              aria-pressed={!shown.hidden.includes(i)}
              title="Show or hide"
              onClick={() => change(toggled(shown, i))}
            >
              {plot.literal ? <bdi>{plain(bar.name)}</bdi> : <Prose text={bar.name} />}
            </button>
            {shown.hidden.includes(i) ? (
              <span class="track" />
            ) : (
              <Track {...{ bar, axis, log, levels: levels.map(({ y }) => y) }} />
            )}
            <span class="value">{shown.hidden.includes(i) ? '' : short(bar.value)}</span>
          </div>
        ))}
      </div>
      <div class="legend">
        <span class="at number">
          {read
            ? `${plain(read.name)}: ${told(read)}`
            : levels.map(({ label, y }) => `dashed: ${plain(label)}, ${short(y)}`).join('; ')}
        </span>
        <span class="quiet" aria-live="polite">
          {read && `${plain(read.name)}: ${told(read)}`}
        </span>
      </div>
    </>
  );
}

interface TrackProps {
  bar: Bar;
  axis: Axis;
  log: boolean;
  levels: number[];
}

function Track({ bar, axis, log, levels }: TrackProps) {
  const zero = log ? 0 : placeOn(axis, 0);
  const span = (one: number, other: number): { left: string; width: string } => ({
    left: `${Math.min(one, other)}%`,
    width: `${Math.abs(other - one)}%`,
  });
  const { value, low, high } = bar;
  const whisker = low !== null && high !== null && drawable(high, log);
  return (
    <span class="track">
      {drawable(value, log) && <span class="fill" style={span(zero, placeOn(axis, value))} />}
      <span class="zero" style={{ left: `${zero}%` }} />
      {whisker && (
        <span
          class="whisker"
          style={span(drawable(low, log) ? placeOn(axis, low) : 0, placeOn(axis, high))}
        />
      )}
      {levels.map((level, i) => (
        <span key={i} class="level" style={{ left: `${placeOn(axis, level)}%` }} />
      ))}
    </span>
  );
}

function told({ value, low, high }: Bar): string {
  return low === null || high === null
    ? long(value)
    : `${long(value)} (${long(low)} to ${long(high)})`;
}

function summary(plot: Bars): string {
  return `${plain(plot.y)}: ${plot.values.map(spoken).join('; ')}.`;
}

function spoken(bar: Bar): string {
  return `${plain(bar.name)} ${short(bar.value)}`;
}
