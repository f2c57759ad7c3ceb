// The header of a capture, as docs/capture-format.md describes it.

export type Code = 'f32' | 'u8' | 'bits' | 'sqrt8' | 'sqrt16' | 'signed8' | 'signed16' | 'linear16';

export interface ArrayRef {
  block: number;
  offset: number;
  shape: number[];
  code: Code;
  error: number;
}

export interface Token {
  text: string;
  word: number;
  special: boolean;
}

export interface Picture {
  width: number;
  height: number;
  rows: number;
  columns: number;
  first: number;
  pixels: ArrayRef;
}

export interface Sequence {
  name: string;
  tokens: Token[];
  segments: number[] | null;
  prompt: number | null;
  image: Picture | null;
}

export interface Pattern {
  label: string;
  scores: Record<string, number>;
}

export interface LayerInfo {
  name: string;
  stack: 'encoder' | 'decoder';
  kind: 'self' | 'cross';
  queries: number;
  keys: number;
  heads: number[];
  all_heads: number;
  mechanism: string;
  signed: boolean;
  normalised: boolean;
  scale: number | null;
  difference: number | null;
  excess: number | null; // difference as a multiple of what rounding explains
  note: string;
  weights: ArrayRef;
  sums: ArrayRef;
  norms: ArrayRef | null;
  q: ArrayRef | null;
  k: ArrayRef | null;
  v: ArrayRef | null;
  groups?: number[]; // for each captured head its index in k and v
  bias: ArrayRef | null;
  mask: number | null;
  patterns: Pattern[];
}

export interface Flow {
  rollout: ArrayRef[] | null;
  gradient: ArrayRef[] | null;
  target: string;
  reasons: { rollout?: string; gradient?: string };
  layers: number[];
}

export interface Next {
  sequence: number;
  top: [string, number][][];
  actual: (number | null)[];
}

export interface Side {
  label: string;
  model: { name: string; kind: string; source: string; parameters: number };
  sequences: Sequence[];
  masks: { causal: boolean; allowed: ArrayRef }[];
  layers: LayerInfo[];
  next: Next | null;
  flow: Flow;
  control: Pattern[][] | null;
  small: ArrayRef;
}

export interface Opening {
  view: string;
  layer: number;
  head: number | null; // index among the captured heads of the layer
  query: number | null;
}

export interface Highlight {
  layer: number;
  head: number; // index among the captured heads of the layer
  query: number;
  key: number;
  weight: number;
  pattern: string;
}

export interface Header {
  format: 'attnlab-capture';
  version: number;
  title: string;
  made: Record<string, string>;
  notes: string[];
  opening: Opening | null; // what the page shows first, of side 0
  highlights: Highlight[]; // heads of side 0 that are worth a look, the most telling first
  blocks: { length: number; size: number }[];
  sides: Side[];
}
