// Light and dark colors. Heads differ by color and dash, signs by hue and a minus.

import { LEVELS, oklab, ramp, type Color } from './color';

export type Mode = 'light' | 'dark';

export interface Theme {
  mode: Mode;
  color: (name: string) => string; // "#rrggbb"; a color is returned unchanged, an unknown name gives the text color
  sequential: Uint8Array; // LEVELS colors, red green blue, for 0..1
  diverging: Uint8Array; // LEVELS colors for -1..1
}

const NAMES: Record<Mode, Record<string, string>> = {
  light: {
    page: '#fcfcfa',
    card: '#f2f2ee',
    ink: '#1c1d20',
    dim: '#5a5d64',
    rule: '#dcdcd6',
    accent: '#0067a3',
    warn: '#a63d00',
    good: '#00694d',
    found: '#ffe58f',
    s0: '#0072b2',
    s1: '#c65102',
    s2: '#00805e',
    s3: '#a8437f',
    s4: '#946800',
    s5: '#80848c',
  },
  dark: {
    page: '#15171a',
    card: '#1f2226',
    ink: '#e9e9e6',
    dim: '#a5a9b1',
    rule: '#363a40',
    accent: '#5cb3e8',
    warn: '#ff9f5c',
    good: '#3dd6a6',
    found: '#5c4a00',
    s0: '#4fa8de',
    s1: '#ff9248',
    s2: '#2fcf9f',
    s3: '#e39ac3',
    s4: '#f0c040',
    s5: '#8b9099',
  },
};

// After Okabe and Ito, darkened or lightened until each has 3:1 against the page.
const HEADS: Record<Mode, string[]> = {
  light: ['#0072b2', '#c65102', '#00805e', '#a8437f', '#946800', '#2a7f9e', '#6a4fb3', '#5f6670'],
  dark: ['#4fa8de', '#ff9248', '#2fcf9f', '#e39ac3', '#f0c040', '#8fd4ea', '#b7a3f5', '#a5a9b1'],
};

const DASHES: number[][] = [[], [7, 3], [2, 3], [9, 3, 2, 3]];

// The first heads have solid lines; a repeated color has another dash.
export function headDash(head: number): number[] {
  return DASHES[Math.floor(head / HEADS.light.length) % DASHES.length];
}

export function headColor(head: number): string {
  return `head${head % HEADS.light.length}`;
}

// Lightness is monotonic, and blue to yellow is visible with red-green blindness (as in cividis). The
// value 0 has the color of the page, so that an empty cell looks empty.
const SEQUENTIAL: Record<Mode, Color[]> = {
  light: [
    oklab('#fcfcfa'),
    oklab('#f1e3a2'),
    oklab('#c9ac57'),
    oklab('#7f7c6d'),
    oklab('#3d5277'),
    oklab('#0b1f4e'),
  ],
  dark: [
    oklab('#15171a'),
    oklab('#1f3a6b'),
    oklab('#4d5f80'),
    oklab('#8f8a74'),
    oklab('#d1b64f'),
    oklab('#fff0a0'),
  ],
};

// Orange below 0, blue above.
const DIVERGING: Record<Mode, Color[]> = {
  light: [
    oklab('#7a2b00'),
    oklab('#d9772b'),
    oklab('#f6d3b0'),
    oklab('#fcfcfa'),
    oklab('#b5d4ee'),
    oklab('#3f8cc7'),
    oklab('#063b66'),
  ],
  dark: [
    oklab('#ffc48f'),
    oklab('#d9772b'),
    oklab('#5c3417'),
    oklab('#15171a'),
    oklab('#143a5a'),
    oklab('#3f8cc7'),
    oklab('#b3dcff'),
  ],
};

const themes = new Map<Mode, Theme>();

export function theme(mode: Mode): Theme {
  const known = themes.get(mode);
  if (known) return known;
  const fresh: Theme = {
    mode,
    color: (name) => resolve(mode, name),
    sequential: ramp(SEQUENTIAL[mode]),
    diverging: ramp(DIVERGING[mode]),
  };
  themes.set(mode, fresh);
  return fresh;
}

function resolve(mode: Mode, name: string): string {
  const known = NAMES[mode][name];
  if (known) return known;
  const head = /^head(\d{1,6})$/.exec(name);
  if (head) return HEADS[mode][Number(head[1]) % HEADS[mode].length];
  return /^#[0-9a-f]{6}$/i.test(name) ? name : NAMES[mode].ink;
}

export const EMPTY = LEVELS; // the level of NaN
