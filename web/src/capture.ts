// A capture that was opened: blocks are inflated and arrays decoded when they are first needed.

import type { ArrayRef, Header, LayerInfo, Need } from './types';

export interface Opened {
  header: Header;
  // Values that a view's `needs` asked for; it throws if they are not decoded yet.
  weights(side: number, layer: number): Weights;
  values(ref: ArrayRef): Float32Array;
  bytes(ref: ArrayRef): Uint8Array;
  ready(needs: Need[]): boolean;
  load(needs: Need[]): Promise<void>;
}

// Weights stay quantised (a byte or two each) and are read by a table: 512 tokens of 12 heads are 3 million.
export interface Weights {
  layer: LayerInfo;
  heads: number;
  queries: number;
  keys: number;
  row(head: number, query: number): Float32Array; // a fresh row
  at(head: number, query: number, key: number): number;
  head(head: number): Float32Array; // (T, S), cached for the last few
  mean(heads: number[]): Float32Array; // (T, S)
  sum(head: number, query: number): number; // of the row before rounding
}
