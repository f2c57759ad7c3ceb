// The JSON of attnlab/report/_content.py, by hand until it is generated from its JSON schema.
// Infinity and NaN are texts there; plots are read by readPlot.

import type { Estimate } from './plot';

export type Cell = string | number | boolean | null | Estimate;

export interface Table {
  kind: 'table';
  title: string;
  header: string[];
  rows: Cell[][];
  note: string;
}

export interface Figure {
  kind: 'figure';
  title: string;
  plot: unknown;
  note: string;
}

export interface Gallery {
  kind: 'gallery';
  title: string;
  pictures: { png: string; text: string; note: string }[];
  note: string;
}

export interface Quote {
  kind: 'quote';
  title: string;
  text: string;
  marked: string;
}

export interface Strip {
  kind: 'strip';
  title: string;
  tokens: string[];
  weights: unknown[];
  note: string;
}

export interface Command {
  kind: 'command';
  command: string;
  why: string;
}

export interface Link {
  kind: 'link';
  href: string;
  text: string;
}

export type Block = Table | Figure | Gallery | Quote | Strip | Command | Link;

type Value = string | number | boolean | null;

export interface Section {
  name: string;
  title: string;
  findings: string[];
  advice: string[];
  tiles: { name: string; value: string; note: string }[];
  blocks: Block[];
  settings: Record<string, Value | Value[]>;
}

export interface Report {
  format: 'attnlab-report';
  version: 1;
  kind: string;
  title: string;
  sections: Section[];
  machine: Record<string, Value>;
  versions: Record<string, string>;
  seconds: number;
}
