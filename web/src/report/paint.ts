// The colors and dashes of a drawing: variables on a page, plain colors in a file.

import { headColor, theme, type Mode } from '../shared/theme';

export interface Paint {
  mode: Mode;
  color: (name: string) => string; // of the theme: "ink", "rule", "head0", ...
}

export const COLORS = 8; // --c0 to --c7, those of heads

// By pen: its place among the series.
export const colorOf = (pen: number): string => `var(--c${pen % COLORS})`;

export function onPage(mode: Mode): Paint {
  const head = /^head(\d+)$/;
  return {
    mode,
    color: (name) => (head.test(name) ? colorOf(Number(name.slice(4))) : `var(--${name})`),
  };
}

export function inFile(mode: Mode): Paint {
  return { mode, color: theme(mode).color };
}

const DASHES = [[], [7, 3], [2, 3], [9, 3, 2, 3], [12, 4], [4, 4], [1, 4], [14, 3, 2, 3]];

// There are as many as colors: a color that comes again has another dash.
export function dashOf(pen: number): string {
  return DASHES[(pen + Math.floor(pen / DASHES.length)) % DASHES.length].join(' ');
}

export function penOf(pen: number, { color }: Paint) {
  return {
    stroke: color(headColor(pen)),
    'stroke-width': 2,
    'stroke-dasharray': dashOf(pen) || undefined,
    fill: 'none',
  };
}
