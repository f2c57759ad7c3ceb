// What a view is: a pure function from the capture and the person's choices to a drawing and a
// table. The drawing is painted on a canvas, written as SVG or turned into PNG; the table is the
// same for people who cannot see it, and for CSV. So what is taken away is exactly what is shown.

import type { Table } from '../shared/table';
import type { Opened } from './capture';
import type { Choices } from './choices';

// Drawing: plain data in CSS pixels. Colors are names of the theme (theme.ts: "ink", "dim",
// "rule", "card", "page", "accent", "warn", "head0", "head1", ...) or "#rrggbb".
export type Mark =
  | {
      kind: 'rect';
      x: number;
      y: number;
      w: number;
      h: number;
      fill?: string;
      stroke?: string;
      opacity?: number;
      radius?: number;
    }
  | {
      kind: 'line';
      x1: number;
      y1: number;
      x2: number;
      y2: number;
      stroke: string;
      width: number;
      opacity: number;
      dash?: number[];
    }
  // y is the base line; text longer than `limit` pixels is cut with an ellipsis
  | {
      kind: 'text';
      x: number;
      y: number;
      text: string;
      size: number;
      fill?: string;
      anchor?: 'start' | 'middle' | 'end';
      bold?: boolean;
      mono?: boolean;
      rotate?: number;
      limit?: number;
    }
  // one value per cell, colored by the theme's ramp: 0..1, or -1..1 where `signed`; NaN: empty
  | {
      kind: 'raster';
      x: number;
      y: number;
      w: number;
      h: number;
      rows: number;
      columns: number;
      values: Float32Array;
      signed: boolean;
      opacity?: number;
    }
  | {
      kind: 'picture';
      x: number;
      y: number;
      w: number;
      h: number;
      rows: number;
      columns: number;
      rgb: Uint8Array;
    }
  // one line through all points; filled where `fill` is given
  | {
      kind: 'poly';
      points: [number, number][];
      closed?: boolean;
      fill?: string;
      stroke?: string;
      width?: number;
      opacity?: number;
      dash?: number[];
    }
  // many straight lines: of each its points x1 y1 x2 y2, its opacity 0..1 and its width
  | {
      kind: 'lines';
      points: Float32Array;
      opacities: Float32Array;
      widths: Float32Array;
      stroke: string;
      dash?: number[];
    };

// A place that can be pointed at, reached by keyboard and clicked.
export interface Target {
  x: number;
  y: number;
  w: number;
  h: number;
  label: string; // for screen readers and the tip
  pick?: Partial<Choices>; // what a click or Enter changes
  tip?: () => string[]; // lines shown under the pointer
  key?: string; // focus returns to the target of the same key after a redraw
  // adds to or takes from a set, with Shift or Space; a head of another layer begins a new set
  toggles?: { what: 'heads' | 'queries'; index: number; layer?: number };
  preview?: Partial<Choices>; // drawn with these while it is pointed at; places must not move
  over?: () => Mark[]; // painted on top while it is pointed at or focused (a crosshair)
}

// The part of a drawing that can be zoomed: wheel, dragged frame and + - 0 change `choices.zoom`.
export interface Zoomed {
  x: number;
  y: number;
  w: number;
  h: number;
  window: [number, number, number, number]; // shown now: first and last query, first and last key
  rows: number; // of everything
  columns: number;
}

export interface Drawing {
  width: number;
  height: number;
  marks: Mark[];
  targets: Target[];
  // places too many for targets (cells of a matrix): found by position
  at?: (x: number, y: number) => Target | null;
  find?: (key: string) => Target | null; // one of those places by its key, wherever it is now
  zoom?: Zoomed;
  summary: string; // one sentence: what is seen
  note?: string; // one sentence: what was left out, and how to see it
}

export interface Frame {
  opened: Opened; // the capture, with layers that `needs` named decoded
  choices: Choices;
  width: number; // of the place to draw in
  height: number;
  measure: (text: string, size: number, mono?: boolean) => number; // text width
}

export interface View {
  id: string; // in the URL fragment
  key: string; // the keystroke
  title: string;
  about: string; // one sentence
  missing: (opened: Opened, choices: Choices) => string | null; // why it cannot be shown, or null
  needs: (opened: Opened, choices: Choices) => Need[]; // what must be decoded first
  draw: (frame: Frame) => Drawing;
  table: (frame: Frame) => Table;
  controls: Control[]; // which controls of the tool bar matter here
  // layers that can be chosen; all where it is missing
  layers?: (opened: Opened, choices: Choices) => number[];
  // first and last of choices.step, and which one is shown
  steps?: (opened: Opened, choices: Choices) => [number, number, number?];
}

export type Need =
  | { side: number; layer: number; parts: ('weights' | 'q' | 'k' | 'v' | 'bias' | 'norms')[] }
  | { side: number; flow: 'rollout' | 'gradient'; index: number }
  | { side: number; mask: number }
  | { side: number; small: true }
  | { side: number; image: number };

export type Control =
  | 'layer'
  | 'heads'
  | 'queries'
  | 'scale'
  | 'threshold'
  | 'top'
  | 'sinks'
  | 'words'
  | 'search'
  | 'weighting'
  | 'order'
  | 'side'
  | 'step'
  | 'zoom'
  | 'flow';
