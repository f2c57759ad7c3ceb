// The interface of a view: pure functions from the capture and the user's choices to a drawing and a
// table. The drawing goes to the canvas, to SVG and to PNG; the table holds the same numbers for
// screen readers and CSV. So downloads hold exactly what the page shows.

import type { ComponentType } from 'preact';
import type { Table } from '../shared/table-type';
import type { Mode } from '../shared/theme';
import type { Capture } from './capture';
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
  // y is the baseline; text wider than `limit` pixels is shortened with an ellipsis
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
  // one value per cell, colored by the theme's ramp: 0..1, or -1..1 if `signed`; NaN is empty
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
      noSigns?: boolean; // no minus in negative cells, because they hold numbers
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
  // one line through all points; filled if `fill` is given
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
  // many straight lines: for each the points x1 y1 x2 y2, an opacity 0..1 and a width
  | {
      kind: 'lines';
      points: Float32Array;
      opacities: Float32Array;
      widths: Float32Array;
      stroke: string;
      dash?: number[];
    };

// An area of the drawing that reacts to the pointer and to the keyboard.
export interface Target {
  x: number;
  y: number;
  w: number;
  h: number;
  label: string; // for screen readers, and for the tooltip if `tooltip` is missing
  pick?: Partial<Choices>; // changes made by a click or Enter
  tooltip?: () => string[]; // lines of the tooltip
  tooltipSpan?: [number, number]; // the tooltip stays between these x, and covers nothing else
  key?: string; // focus returns to the target of the same key after a redraw
  // Shift-click or Space adds to or removes from a set; a head of another layer starts a new set
  toggles?: { set: 'heads' | 'queries'; index: number; layer?: number };
  preview?: Partial<Choices>; // choices to draw with while hovered; they must not move any target
  overlay?: () => Mark[]; // painted on top while hovered or focused (a crosshair)
}

// The part of a drawing that zooms: the wheel, a dragged rectangle and + - 0 change `choices.zoom`.
export interface ZoomArea {
  x: number;
  y: number;
  w: number;
  h: number;
  window: [number, number, number, number]; // visible now: first and last query, first and last key
  rows: number; // of the whole matrix
  columns: number;
}

export interface Drawing {
  width: number;
  height: number;
  marks: Mark[];
  targets: Target[];
  // finds a target by position, where there are too many for a list (cells of a matrix)
  targetAt?: (x: number, y: number) => Target | null;
  findByKey?: (key: string) => Target | null; // finds such a target by its key after a redraw
  zoom?: ZoomArea;
  summary: string; // one sentence: what the drawing shows
  note?: string; // one sentence: what is left out, and how to see it
}

export interface Frame {
  capture: Capture; // the capture, with everything loaded that `needs` returns
  choices: Choices;
  width: number; // of the drawing area
  height: number;
  measure: (text: string, size: number, mono?: boolean) => number; // text width
}

export interface View {
  id: string; // in the URL fragment
  key: string; // the keyboard shortcut
  title: string;
  description: string; // one sentence for tooltips and the help
  missingReason: (capture: Capture, choices: Choices) => string | null; // why the view cannot be shown, or null
  needs: (capture: Capture, choices: Choices) => Need[]; // arrays that must be loaded first
  draw: (frame: Frame) => Drawing;
  table: (frame: Frame) => Table;
  controls: Control[]; // controls that the toolbar shows
  page?: ComponentType<PageProps>; // shown instead of the drawing, which is then only for figures
  // layers that can be selected; all if it is missing
  layers?: (capture: Capture, choices: Choices) => number[];
  // first and last value of choices.step, and the one that is shown
  steps?: (capture: Capture, choices: Choices) => [number, number, number?];
}

// What a view that is no drawing gets.
export interface PageProps {
  frame: Frame;
  mode: Mode;
  change: (changes: Partial<Choices>) => void;
}

export type Need =
  | { side: number; layer: number; parts: ('weights' | 'q' | 'k' | 'v' | 'bias' | 'norms')[] }
  | { side: number; flow: 'rollout' | 'gradient'; index: number }
  | { side: number; mask: number }
  | { side: number; small: true }
  | { side: number; effects: true }
  | { side: number; walkthrough: true }
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
  | 'flow'
  | 'vectors';
