// Everything a person has chosen. It lives in the URL fragment, so a link or the back button restores it.

export interface Choices {
  view: string;
  side: number;
  layer: number; // index in side.layers
  heads: number[]; // indices among the layer's kept heads; empty: all
  mean: boolean; // the mean of the heads, as one
  queries: number[]; // selected query tokens; several are summed
  key: number | null; // focused key token
  scale: 'linear' | 'sqrt' | 'log';
  threshold: number; // weights below are hidden
  top: number; // keys per query at most; 0: all
  first: 'show' | 'hide' | 'renormalise'; // first-token sink
  separators: 'show' | 'hide' | 'renormalise';
  words: boolean; // merge sub-words into words
  search: string;
  weighting: 'weights' | 'norms'; // times the length of the value
  order: 'layer' | 'pattern' | 'change'; // of small maps
  step: number | null; // generated token that is looked at
  flow: 'rollout' | 'gradient';
  zoom: [number, number, number, number] | null; // of the matrix: first and last query, first and last key
  table: boolean; // the table instead of the drawing
}

export const DEFAULTS: Choices = {
  view: 'heads', side: 0, layer: 0, heads: [], mean: false, queries: [], key: null, scale: 'linear',
  threshold: 0, top: 0, first: 'show', separators: 'show', words: false, search: '', weighting: 'weights',
  order: 'layer', step: null, flow: 'rollout', zoom: null, table: false,
};
