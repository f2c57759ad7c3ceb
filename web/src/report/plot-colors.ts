// Colors and dashes of plots: CSS variables on a page, plain colors in a file.

import { headColor, theme, type Mode } from '../shared/theme';

export interface PlotColors {
  mode: Mode;
  color: (name: string) => string; // of the theme: "ink", "rule", "head0", ...
}

export const COLORS = 8; // --c0 to --c7

// By pen, which is the index among the series.
export const seriesColor = (pen: number): string => `var(--c${pen % COLORS})`;

export function pageColors(mode: Mode): PlotColors {
  const head = /^head(\d+)$/;
  return {
    mode,
    color: (name) => (head.test(name) ? seriesColor(Number(name.slice(4))) : `var(--${name})`),
  };
}

export function fileColors(mode: Mode): PlotColors {
  return { mode, color: theme(mode).color };
}

const DASHES = [[], [7, 3], [2, 3], [9, 3, 2, 3], [12, 4], [4, 4], [1, 4], [14, 3, 2, 3]];

// As many dashes as colors, so that a repeated color has another dash.
export function seriesDash(pen: number): string {
  return DASHES[(pen + Math.floor(pen / DASHES.length)) % DASHES.length].join(' ');
}

export function lineStyle(pen: number, { color }: PlotColors) {
  return {
    stroke: color(headColor(pen)),
    'stroke-width': 2,
    'stroke-dasharray': seriesDash(pen) || undefined,
    fill: 'none',
  };
}
