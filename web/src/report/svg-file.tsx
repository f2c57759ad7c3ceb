// Draws a figure as an SVG file with title and legend, in plain colors.

import { render, type VNode } from 'preact';
import { fitText, createMeasure, SANS, type Measure } from '../shared/text-width';
import { theme, type Mode } from '../shared/theme';
import { barScale, barLegend, visibleBars, BarDrawing, BAR_HEIGHT } from './bar-plot';
import { legendTexts, colorScale } from './heatmap-colors';
import { CELL_HEIGHT, labelInterval, HeatmapDrawing, longestNameWidth, rampColors } from './heatmap-plot';
import { linesLayout } from './line-layout';
import { LinesDrawing } from './line-plot';
import { formatPercent, formatShort } from './number-format';
import { fileColors, lineStyle, type PlotColors } from './plot-colors';
import type { Bars, Heatmap, Lines, Plot } from './plot-data';
import { flatText } from './math-text';
import { plainText } from './text-format';
import type { FigureOptions } from './figure-options';

const [TITLE, TITLE_ROW, TEXT, ROW, EDGE, TOP] = [13.5, 19, 11.5, 19, 12, 34];
const MAX_TITLE_LINES = 3;
let measured: Measure | null = null;
const measure: Measure = (text, size) =>
  (measured ??= createMeasure(document.createElement('canvas').getContext('2d')))(text, size);
const shorten = (text: string, limit: number, size = TEXT): string =>
  fitText(text, limit, (part) => measure(part, size));

export interface FigureToSave {
  title: string; // empty for a figure without a caption
  plot: Plot;
  options: FigureOptions;
  width: number;
  height: number;
}

interface Drawing {
  body: VNode;
  bottom: number;
}

// The height is that of the content: nothing is left empty.
export function figureSvg({ title, plot, options, width, height }: FigureToSave, mode: Mode): string {
  const paint = fileColors(mode);
  const { body, bottom } =
    plot.kind === 'lines'
      ? lines(plot, options, width, height, paint)
      : plot.kind === 'bars'
        ? bars(plot, options, width, paint)
        : heatmap(plot, width, paint);
  const subtitle = plot.kind === 'heatmap' ? `${plot.z}, by ${plot.y}` : plot.y;
  const titleLines = title ? wrapText(plainText(title), width - 2 * EDGE, TITLE) : [];
  const titleHeight = titleLines.length * TITLE_ROW;
  const totalHeight = bottom + EDGE + titleHeight;
  const holder = document.createElement('div');
  render(
    <svg
      xmlns="http://www.w3.org/2000/svg"
      {...{ width, height: totalHeight }}
      viewBox={`0 0 ${width} ${totalHeight}`}
      font-family={SANS}
      font-size={TEXT}
      fill={paint.color('ink')}
      role="img"
    >
      <title>{plainText(title) || flatText(subtitle)}</title>
      <rect width={width} height={totalHeight} fill={theme(mode).color('page')} />
      {titleLines.map((line, i) => (
        <text x={EDGE} y={22 + i * TITLE_ROW} font-size={TITLE} font-weight="600">
          {line}
        </text>
      ))}
      <g transform={`translate(0 ${titleHeight})`}>
        <text x={EDGE} y={20} fill={paint.color('dim')}>
          {shorten(flatText(subtitle), width - 2 * EDGE)}
        </text>
        {body}
      </g>
    </svg>,
    holder,
  );
  return new XMLSerializer().serializeToString(holder.firstElementChild!);
}

// At most three lines, broken at spaces.
function wrapText(text: string, width: number, size: number): string[] {
  const wrapped: string[] = [];
  for (const word of text.split(' ')) {
    const last = wrapped[wrapped.length - 1];
    // bold letters are wider than they are measured
    if (last !== undefined && measure(`${last} ${word}`, size) * 1.08 <= width)
      wrapped[wrapped.length - 1] = `${last} ${word}`;
    else wrapped.push(word);
  }
  const lines = wrapped.slice(0, MAX_TITLE_LINES);
  if (wrapped.length > lines.length) lines.push(`${lines.pop()} …`);
  return lines.map((line) => shorten(line, width, size * 1.08));
}

function lines(plot: Lines, options: FigureOptions, width: number, height: number, paint: PlotColors): Drawing {
  const layout = linesLayout(plot, options, width - EDGE, height);
  const below = TOP - 6 + layout.frame.bottom + 36;
  const body = (
    <>
      <g transform={`translate(0 ${TOP - 6})`}>
        <LinesDrawing {...{ layout, paint }} />
      </g>
      <text x={layout.frame.right} y={below} fill={paint.color('dim')} text-anchor="end">
        {shorten(flatText(plot.x), width - 2 * EDGE)}
      </text>
      {layout.lines.map(({ pen, series: { name, literal } }, row) => {
        const y = below + ROW * (row + 1);
        return (
          <>
            <path d={`M${EDGE} ${y - 4}h26`} {...lineStyle(pen, paint)} />
            <text x={EDGE + 34} y={y}>
              {shorten((literal ? plainText : flatText)(name), width - 2 * EDGE - 34)}
            </text>
          </>
        );
      })}
    </>
  );
  return { body, bottom: below + ROW * layout.lines.length };
}

function bars(plot: Bars, options: FigureOptions, width: number, paint: PlotColors): Drawing {
  const log = options.yLog ?? false;
  const on = visibleBars(plot, options);
  const scale = barScale(plot, options);
  const names = on.map(({ name }) => shorten((plot.literal ? plainText : flatText)(name), 0.45 * width));
  const values = on.map(({ value }) => (plot.percent ? formatPercent : formatShort)(value));
  const widest = (texts: string[]): number =>
    texts.reduce((most, each) => Math.max(most, measure(each, TEXT)), 0);
  const left = EDGE + widest(names) + 10;
  const barWidth = width - EDGE - widest(values) - 10 - left;
  const pitch = BAR_HEIGHT + 5;
  const bottom = TOP + pitch * on.length;
  const key = barLegend(plot, log);
  const body = (
    <>
      {on.map((bar, row) => (
        <>
          <text x={EDGE} y={TOP + pitch * row + 14}>
            {names[row]}
          </text>
          <svg x={left} y={TOP + pitch * row} width={barWidth} height={BAR_HEIGHT}>
            <BarDrawing {...{ bar, plot, scale, log, paint }} />
          </svg>
          <text x={width - EDGE} y={TOP + pitch * row + 14} text-anchor="end">
            {values[row]}
          </text>
        </>
      ))}
      <text x={EDGE} y={bottom + ROW} fill={paint.color('dim')}>
        {shorten(key, width - 2 * EDGE)}
      </text>
    </>
  );
  return { body, bottom: bottom + (key ? ROW : 0) };
}

function heatmap(map: Heatmap, width: number, paint: PlotColors): Drawing {
  const scale = colorScale(map);
  const left = EDGE + Math.min(0.42 * width, longestNameWidth(map.rows)) + 8;
  const own = width - EDGE - left;
  const every = labelInterval(map, own);
  const bottomOfCells = TOP + CELL_HEIGHT * map.rows.length;
  const step = own / Math.max(1, map.columns.length);
  const keys = map.names.length ? map.names.map(flatText) : legendTexts(scale);
  const colors = map.names.length
    ? map.names.map((_, i) => paint.color(`head${i}`))
    : rampColors(scale, paint);
  const place = (i: number, count: number): number => left + (own * i) / Math.max(1, count);
  const body = (
    <>
      {map.rows.map((name, i) => (
        <text x={left - 8} y={TOP + CELL_HEIGHT * (i + 0.5) + 4} fill={paint.color('dim')} text-anchor="end">
          {shorten(flatText(name), 0.42 * width)}
        </text>
      ))}
      <g transform={`translate(${left} ${TOP})`}>
        <HeatmapDrawing {...{ map, scale, paint }} width={own} />
      </g>
      {map.columns.map((name, i) => i % every === 0 && (
        <text x={left + (i + 0.5) * step} y={bottomOfCells + 14} fill={paint.color('dim')} text-anchor="middle">
          {shorten(flatText(name), every * step)}
        </text>
      ))}
      <text x={width - EDGE} y={bottomOfCells + 32} fill={paint.color('dim')} text-anchor="end">
        {flatText(map.x)}
      </text>
      {colors.map((fill, i) => (
        <rect x={place(i, colors.length)} y={bottomOfCells + 42} width={own / colors.length + 0.3} height={8} {...{ fill }} />
      ))}
      {keys.map((text, i) => {
        const last = keys.length - 1;
        const named = map.names.length > 0;
        return (
          <text
            x={named ? place(i, keys.length) : place(i, last)}
            y={bottomOfCells + 64}
            text-anchor={named || i === 0 ? 'start' : i === last ? 'end' : 'middle'}
          >
            {shorten(text, own / keys.length)}
          </text>
        );
      })}
    </>
  );
  return { body, bottom: bottomOfCells + 64 };
}
