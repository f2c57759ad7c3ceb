// Horizontal bars, so that long names can be read. Each ends with its value.

import { useState } from 'preact/hooks';
import type { PlotProps } from './line-plot';
import { nextIndex } from './line-plot';
import { formatPercent, formatShort } from './number-format';
import { FormattedText } from './page-frame';
import type { PlotColors } from './plot-colors';
import { formatEstimate, numberFormat, type Bar, type Bars } from './plot-data';
import { flatText } from './math-text';
import { plainText } from './text-format';
import { isDrawable, createScale, type Scale } from './scales';
import { toggleHidden, type FigureOptions } from './figure-options';

export const BAR_HEIGHT = 19; // pixels high

export function visibleBars(plot: Bars, options: FigureOptions): Bar[] {
  return plot.values.filter((_, i) => !options.hidden.includes(i));
}

// A scale from 0 to 100 percent of the width, without hidden bars.
export function barScale(plot: Bars, options: FigureOptions): Scale {
  const log = options.yLog ?? false;
  const all = visibleBars(plot, options)
    .flatMap(({ value, low, high, beside = null }) => [value, low, high, beside])
    .concat(plot.marks.map(({ y }) => y))
    .filter((value) => isDrawable(value, log));
  const lowest = log ? Math.min(...all) / 3 : 0; // so that the shortest bar of a logarithmic axis is visible
  return createScale(all.length ? [lowest, ...all] : all, [0, 100], log);
}

// "pale: before; dashed: chance, 0.1"
export function barLegend(plot: Bars, log: boolean): string {
  const write = plot.percent ? formatPercent : formatShort;
  const hasSecondBars = plot.values.some((bar) => bar.beside != null);
  return [
    ...(hasSecondBars && plot.besideName ? [`pale: ${flatText(plot.besideName)}`] : []),
    ...plot.marks
      .filter(({ y }) => isDrawable(y, log))
      .map(({ label, y }) => `dashed: ${flatText(label)}, ${write(y)}`),
  ].join('; ');
}

export function BarPlot({ plot, title, options, change, paint }: PlotProps<Bars>) {
  const [selected, setSelected] = useState<number | null>(null);
  const log = options.yLog ?? false;
  const scale = barScale(plot, options);
  const write = plot.percent ? formatPercent : formatShort;
  const press = (event: KeyboardEvent): void => {
    const next = nextIndex(event.key, selected, plot.values.length - 1);
    if (next === undefined || !plot.values.length) return;
    event.preventDefault();
    setSelected(next);
  };
  const bar = selected === null ? null : plot.values[selected];
  const read = bar && `${plainText(bar.name)}: ${describeBar(plot, bar)}`;
  const spoken = plot.values.map(({ name, value }) => `${plainText(name)} ${write(value)}`).join('; ');
  return (
    <>
      <div class="axis-name">
        <FormattedText text={plot.y} />
      </div>
      <div
        class="area bars"
        tabIndex={0}
        role="application"
        aria-roledescription="bars"
        aria-label={`${title}. ${plainText(plot.y)}: ${spoken}. Arrow keys read the values.`}
        onKeyDown={press}
        onPointerLeave={(event) => event.pointerType === 'mouse' && setSelected(null)}
      >
        {plot.values.map((bar, i) => {
          const hidden = options.hidden.includes(i);
          return (
            <div
              key={i}
              class={selected === i ? 'bar-row on' : 'bar-row'}
              onPointerMove={() => setSelected(i)}
              onPointerDown={() => setSelected(i)}
            >
              <button
                type="button"
                aria-pressed={!hidden}
                title="Show or hide"
                onClick={() => change(toggleHidden(options, i))}
              >
                {plot.literal ? <bdi>{plainText(bar.name)}</bdi> : <FormattedText text={bar.name} />}
              </button>
              <svg height={BAR_HEIGHT} aria-hidden="true">
                {!hidden && <BarDrawing {...{ bar, plot, scale, log, paint }} />}
              </svg>
              <span class="value">{hidden ? '' : write(bar.value)}</span>
            </div>
          );
        })}
      </div>
      <div class="legend">
        <span class="at number">{read ?? barLegend(plot, log)}</span>
        <span class="quiet" aria-live="polite">
          {read}
        </span>
      </div>
    </>
  );
}

function describeBar(plot: Bars, bar: Bar): string {
  const write = numberFormat(plot.percent);
  const beside = bar.beside == null ? '' : `; ${plainText(plot.besideName || 'beside')} ${write(bar.beside)}`;
  return formatEstimate(bar, write) + beside;
}

interface TrackProps {
  bar: Bar;
  plot: Bars;
  scale: Scale;
  log: boolean;
  paint: PlotColors;
}

// One bar in a box that is TRACK high and of any width.
export function BarDrawing({ bar, plot, scale, log, paint }: TrackProps) {
  const zero = log ? 0 : scale(0);
  const at = (position: number): string => `${position.toFixed(3)}%`;
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
  const upright = (position: number, from: number, to: number) => ({
    x1: at(position),
    x2: at(position),
    y1: from,
    y2: to,
  });
  const { value, low, high, beside = null } = bar;
  const [from, to] = [isDrawable(low, log) ? scale(low) : 0, isDrawable(high, log) ? scale(high) : null];
  const hasSecondBar = isDrawable(beside, log);
  return (
    <>
      {isDrawable(value, log) && span(value, 1, 3, hasSecondBar ? 8 : 13, 'fill')}
      {hasSecondBar && span(beside, 0.45, 12, 5)}
      <line {...upright(zero, 0, BAR_HEIGHT)} stroke={paint.color('dim')} />
      {low !== null && to !== null && (
        <g stroke={paint.color('ink')} stroke-width={1.5}>
          <line x1={at(from)} x2={at(to)} y1={9.5} y2={9.5} />
          <line {...upright(from, 6, 13)} />
          <line {...upright(to, 6, 13)} />
        </g>
      )}
      {plot.marks.map(({ y }, i) => isDrawable(y, log) && (
        <line key={i} {...upright(scale(y), 0, BAR_HEIGHT)} stroke={paint.color('ink')} stroke-width={1.5} stroke-dasharray="4 3" />
      ))}
    </>
  );
}
