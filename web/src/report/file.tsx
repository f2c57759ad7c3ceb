// A figure as an SVG file of its own: title, drawing and legend, in plain colors.

import { render, type VNode } from 'preact';
import { fit, measurer, SANS, type Measure } from '../shared/fonts';
import { svgFile } from '../shared/save';
import { theme, type Mode } from '../shared/theme';
import { barScale, barsKey, barsOn, Track, TRACK } from './bars';
import { legendOf, sharesOf } from './heat';
import { CELL, everyOf, HeatmapDrawing, longest, rampOf } from './heatmap';
import { linesLayout } from './layout';
import { LinesDrawing } from './lines';
import { percent, short } from './numbers';
import { inFile, penOf, type Paint } from './paint';
import type { Bars, Heatmap, Lines, Plot } from './plot';
import { flat, plain } from './prose';
import type { Shown } from './shown';

const [TITLE, TEXT, ROW, EDGE, TOP] = [15, 11.5, 19, 14, 58];
const NARROWEST = 480;
let measured: Measure | null = null;
const measure: Measure = (text, size) =>
  (measured ??= measurer(document.createElement('canvas').getContext('2d')))(text, size);
const cut = (text: string, limit: number, size = TEXT): string =>
  fit(text, limit, (each) => measure(each, size));

export interface Drawn {
  title: string;
  plot: Plot;
  shown: Shown;
  width: number;
  height: number;
}

interface Part {
  body: VNode;
  bottom: number;
}

export function figureFile({ title, plot, shown, width: wanted, height }: Drawn, mode: Mode): Blob {
  const width = Math.max(NARROWEST, wanted);
  const paint = inFile(mode);
  const { body, bottom } =
    plot.kind === 'lines'
      ? lines(plot, shown, width, height, paint)
      : plot.kind === 'bars'
        ? bars(plot, shown, width, paint)
        : heatmap(plot, width, paint);
  const above = plot.kind === 'heatmap' ? `${plot.z}, by ${plot.y}` : plot.y;
  const whole = bottom + EDGE;
  const holder = document.createElement('div');
  render(
    <svg
      xmlns="http://www.w3.org/2000/svg"
      {...{ width, height: whole }}
      viewBox={`0 0 ${width} ${whole}`}
      font-family={SANS}
      font-size={TEXT}
      fill={paint.color('ink')}
      role="img"
    >
      <title>{plain(title)}</title>
      <rect width={width} height={whole} fill={theme(mode).color('page')} />
      <text x={EDGE} y={24} font-size={TITLE} font-weight="600">
        {cut(plain(title), width - 2 * EDGE, TITLE)}
      </text>
      <text x={EDGE} y={44} fill={paint.color('dim')}>
        {cut(flat(above), width - 2 * EDGE)}
      </text>
      {body}
    </svg>,
    holder,
  );
  return svgFile(new XMLSerializer().serializeToString(holder.firstElementChild!));
}

function lines(plot: Lines, shown: Shown, width: number, height: number, paint: Paint): Part {
  const layout = linesLayout(plot, shown, width - EDGE, height);
  const below = TOP - 6 + layout.frame.bottom + 36;
  const body = (
    <>
      <g transform={`translate(0 ${TOP - 6})`}>
        <LinesDrawing {...{ layout, paint }} />
      </g>
      <text x={layout.frame.right} y={below} fill={paint.color('dim')} text-anchor="end">
        {cut(flat(plot.x), width - 2 * EDGE)}
      </text>
      {layout.lines.map(({ pen, series: { name, literal } }, row) => {
        const y = below + ROW * (row + 1);
        return (
          <>
            <path d={`M${EDGE} ${y - 4}h26`} {...penOf(pen, paint)} />
            <text x={EDGE + 34} y={y}>
              {cut((literal ? plain : flat)(name), width - 2 * EDGE - 34)}
            </text>
          </>
        );
      })}
    </>
  );
  return { body, bottom: below + ROW * layout.lines.length };
}

function bars(plot: Bars, shown: Shown, width: number, paint: Paint): Part {
  const log = shown.yLog ?? false;
  const on = barsOn(plot, shown);
  const scale = barScale(plot, shown);
  const names = on.map(({ name }) => cut((plot.literal ? plain : flat)(name), 0.45 * width));
  const values = on.map(({ value }) => (plot.percent ? percent : short)(value));
  const widest = (texts: string[]): number =>
    texts.reduce((most, each) => Math.max(most, measure(each, TEXT)), 0);
  const left = EDGE + widest(names) + 10;
  const room = width - EDGE - widest(values) - 10 - left;
  const pitch = TRACK + 5;
  const bottom = TOP + pitch * on.length;
  const key = barsKey(plot, log);
  const body = (
    <>
      {on.map((bar, row) => (
        <>
          <text x={EDGE} y={TOP + pitch * row + 14}>
            {names[row]}
          </text>
          <svg x={left} y={TOP + pitch * row} width={room} height={TRACK}>
            <Track {...{ bar, plot, scale, log, paint }} />
          </svg>
          <text x={width - EDGE} y={TOP + pitch * row + 14} text-anchor="end">
            {values[row]}
          </text>
        </>
      ))}
      <text x={EDGE} y={bottom + ROW} fill={paint.color('dim')}>
        {cut(key, width - 2 * EDGE)}
      </text>
    </>
  );
  return { body, bottom: bottom + (key ? ROW : 0) };
}

function heatmap(map: Heatmap, width: number, paint: Paint): Part {
  const shares = sharesOf(map);
  const left = EDGE + Math.min(0.42 * width, longest(map.rows)) + 8;
  const own = width - EDGE - left;
  const every = everyOf(map, own);
  const foot = TOP + CELL * map.rows.length;
  const step = own / Math.max(1, map.columns.length);
  const keys = map.names.length ? map.names.map(flat) : legendOf(shares);
  const colors = map.names.length
    ? map.names.map((_, i) => paint.color(`head${i}`))
    : rampOf(shares, paint);
  const place = (i: number, count: number): number => left + (own * i) / Math.max(1, count);
  const body = (
    <>
      {map.rows.map((name, i) => (
        <text x={left - 8} y={TOP + CELL * (i + 0.5) + 4} fill={paint.color('dim')} text-anchor="end">
          {cut(flat(name), 0.42 * width)}
        </text>
      ))}
      <g transform={`translate(${left} ${TOP})`}>
        <HeatmapDrawing {...{ map, shares, paint }} width={own} />
      </g>
      {map.columns.map((name, i) => i % every === 0 && (
        <text x={left + (i + 0.5) * step} y={foot + 14} fill={paint.color('dim')} text-anchor="middle">
          {cut(flat(name), every * step)}
        </text>
      ))}
      <text x={width - EDGE} y={foot + 32} fill={paint.color('dim')} text-anchor="end">
        {flat(map.x)}
      </text>
      {colors.map((fill, i) => (
        <rect x={place(i, colors.length)} y={foot + 42} width={own / colors.length + 0.3} height={8} {...{ fill }} />
      ))}
      {keys.map((text, i) => {
        const last = keys.length - 1;
        const named = map.names.length > 0;
        return (
          <text
            x={named ? place(i, keys.length) : place(i, last)}
            y={foot + 64}
            text-anchor={named || i === 0 ? 'start' : i === last ? 'end' : 'middle'}
          >
            {cut(text, own / keys.length)}
          </text>
        );
      })}
    </>
  );
  return { body, bottom: foot + 64 };
}
