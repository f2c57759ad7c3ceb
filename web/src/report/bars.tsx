// Bars lie, so that names of any length can be read; each ends with its value.

import { useState } from 'preact/hooks';
import type { AreaProps } from './lines';
import { moved } from './lines';
import { percent, short } from './numbers';
import { Prose } from './page';
import type { Paint } from './paint';
import { told, writes, type Bar, type Bars } from './plot';
import { flat, plain } from './prose';
import { drawable, scaleOver, type Scale } from './scales';
import { toggled, type Shown } from './shown';

export const TRACK = 19; // pixels high

export function barsOn(plot: Bars, shown: Shown): Bar[] {
  return plot.values.filter((_, i) => !shown.hidden.includes(i));
}

// From 0 to 100 percent of a track; hidden bars leave their room to the others.
export function barScale(plot: Bars, shown: Shown): Scale {
  const log = shown.yLog ?? false;
  const all = barsOn(plot, shown)
    .flatMap(({ value, low, high, beside = null }) => [value, low, high, beside])
    .concat(plot.marks.map(({ y }) => y))
    .filter((value) => drawable(value, log));
  const foot = log ? Math.min(...all) / 3 : 0; // the shortest bar of a logarithmic axis is seen too
  return scaleOver(all.length ? [foot, ...all] : all, [0, 100], log);
}

// "pale: before; dashed: chance, 0.1"
export function barsKey(plot: Bars, log: boolean): string {
  const write = plot.percent ? percent : short;
  const besides = plot.values.some((bar) => bar.beside != null);
  return [
    ...(besides && plot.besideName ? [`pale: ${flat(plot.besideName)}`] : []),
    ...plot.marks
      .filter(({ y }) => drawable(y, log))
      .map(({ label, y }) => `dashed: ${flat(label)}, ${write(y)}`),
  ].join('; ');
}

export function BarsArea({ plot, title, shown, change, paint }: AreaProps<Bars>) {
  const [on, setOn] = useState<number | null>(null);
  const log = shown.yLog ?? false;
  const scale = barScale(plot, shown);
  const write = plot.percent ? percent : short;
  const press = (event: KeyboardEvent): void => {
    const next = moved(event.key, on, plot.values.length - 1);
    if (next === undefined || !plot.values.length) return;
    event.preventDefault();
    setOn(next);
  };
  const bar = on === null ? null : plot.values[on];
  const read = bar && `${plain(bar.name)}: ${readout(plot, bar)}`;
  const spoken = plot.values.map(({ name, value }) => `${plain(name)} ${write(value)}`).join('; ');
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
        aria-label={`${title}. ${plain(plot.y)}: ${spoken}. Arrow keys read the values.`}
        onKeyDown={press}
        onPointerLeave={(event) => event.pointerType === 'mouse' && setOn(null)}
      >
        {plot.values.map((each, i) => {
          const hidden = shown.hidden.includes(i);
          return (
            <div
              key={i}
              class={on === i ? 'bar-row on' : 'bar-row'}
              onPointerMove={() => setOn(i)}
              onPointerDown={() => setOn(i)}
            >
              <button
                type="button"
                aria-pressed={!hidden}
                title="Show or hide"
                onClick={() => change(toggled(shown, i))}
              >
                {plot.literal ? <bdi>{plain(each.name)}</bdi> : <Prose text={each.name} />}
              </button>
              <svg height={TRACK} aria-hidden="true">
                {!hidden && <Track {...{ bar: each, plot, scale, log, paint }} />}
              </svg>
              <span class="value">{hidden ? '' : write(each.value)}</span>
            </div>
          );
        })}
      </div>
      <div class="legend">
        <span class="at number">{read ?? barsKey(plot, log)}</span>
        <span class="quiet" aria-live="polite">
          {read}
        </span>
      </div>
    </>
  );
}

function readout(plot: Bars, bar: Bar): string {
  const write = writes(plot.percent);
  const beside = bar.beside == null ? '' : `; ${plain(plot.besideName || 'beside')} ${write(bar.beside)}`;
  return told(bar, write) + beside;
}

interface TrackProps {
  bar: Bar;
  plot: Bars;
  scale: Scale;
  log: boolean;
  paint: Paint;
}

// One bar in a box that is TRACK high and of any width.
export function Track({ bar, plot, scale, log, paint }: TrackProps) {
  const zero = log ? 0 : scale(0);
  const at = (share: number): string => `${share.toFixed(3)}%`;
  const span = (to: number, opacity: number, y: number, height: number, name?: string) => (
    <rect
      class={name}
      x={at(Math.min(zero, scale(to)))}
      width={at(Math.max(Math.abs(scale(to) - zero), 0.4))}
      {...{ y, height, opacity }}
      rx={2}
      fill={paint.color('head0')}
    />
  );
  const upright = (share: number, from: number, to: number) => ({
    x1: at(share),
    x2: at(share),
    y1: from,
    y2: to,
  });
  const { value, low, high, beside = null } = bar;
  const [from, to] = [drawable(low, log) ? scale(low) : 0, drawable(high, log) ? scale(high) : null];
  const two = drawable(beside, log);
  return (
    <>
      {drawable(value, log) && span(value, 1, 3, two ? 8 : 13, 'fill')}
      {two && span(beside, 0.45, 12, 5)}
      <line {...upright(zero, 0, TRACK)} stroke={paint.color('dim')} />
      {low !== null && to !== null && (
        <g stroke={paint.color('ink')} stroke-width={1.5}>
          <line x1={at(from)} x2={at(to)} y1={9.5} y2={9.5} />
          <line {...upright(from, 6, 13)} />
          <line {...upright(to, 6, 13)} />
        </g>
      )}
      {plot.marks.map(({ y }, i) => drawable(y, log) && (
        <line key={i} {...upright(scale(y), 0, TRACK)} stroke={paint.color('ink')} stroke-width={1.5} stroke-dasharray="4 3" />
      ))}
    </>
  );
}
