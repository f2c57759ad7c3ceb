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

export interface KeyEffect {
  sequence: number;
  position: number;
  weight: number; // mean over layers and heads
  effect: number; // change of the log-probability if attention to it is cut
}

// What changes a prediction. Each of the P targets is the token after a position, the token itself of
// a masked model, or a class.
export interface Effects {
  kind: 'next' | 'masked' | 'classes';
  sequence: number | null; // null for a class
  measured: number; // the target that was measured in detail
  targets: { token: string; probability: number }[];
  heads: (ArrayRef | null)[]; // per layer (H, P): change of the log-probability without each head
  keys: { points: KeyEffect[]; all_keys: number; correlation: number | null } | null;
  lens: {
    layers: string[];
    vocabulary: string[];
    best: number[][]; // (L, P), indices in the vocabulary
    best_probability: ArrayRef;
    target_probability: ArrayRef;
    top: [string, number][][]; // of the measured target
  } | null;
  patching: {
    layers: string[];
    clean_tokens: string[];
    corrupted_tokens: string[];
    restored: ArrayRef; // (L, T)
    clean: number;
    corrupted: number;
    description: string;
  } | null;
  reasons: { heads?: string; keys?: string; lens?: string; patching?: string };
}

// The path of one token through one layer. An array is null where the model does not show it.
export interface Walkthrough {
  layer: number;
  query: number;
  head: number; // index among the layer's captured heads
  block: number; // number of the layer's block in its stack
  blocks: number; // 0 if unknown
  rotary: boolean; // positions rotate q and k
  embedding: ArrayRef | null; // (W): the stream before the first block
  input: ArrayRef | null; // (W): the stream before this block
  q: ArrayRef | null; // (H, D)
  dots: ArrayRef | null; // (H, S): of q with each key
  bias: ArrayRef | null; // (1 or H, S)
  key_heads: number[]; // heads whose keys and values are kept
  k: ArrayRef | null; // (N, S, D)
  v: ArrayRef | null; // (N, S, M)
  outputs: ArrayRef | null; // (H, O): of each head
  parts: ('self' | 'cross' | 'feed_forward')[];
  added: ArrayRef | null; // (P, W): what each part of the block adds to the stream
  norm_first: boolean;
  hidden: ArrayRef | null; // (F): inside the feed-forward layer
  stream: ArrayRef | null; // (W): after the block
  top: [string, number, number][]; // predicted tokens with logit and probability
  reasons: Partial<Record<'embedding' | 'vectors' | 'keys' | 'heads' | 'parts' | 'output', string>>;
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
  effects: Effects | null;
  walkthrough: Walkthrough | null;
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
