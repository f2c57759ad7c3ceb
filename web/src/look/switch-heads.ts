// Heads that are switched off: the page asks the model, in the studio or in a notebook's kernel, for
// its new prediction.

import type { Side } from './capture-format';

export interface Candidate {
  token: string;
  before: number; // probability of the whole model
  after: number; // without the heads that are off
}

export interface SwitchedPrediction {
  target: Candidate;
  top: Candidate[]; // the likeliest tokens without the heads that are off
}

export interface SwitchRequest {
  heads: [layer: string, head: number][]; // name of the layer, number of the head
  position: number | null;
}

export type SwitchHeads = (
  request: SwitchRequest,
  signal: AbortSignal,
) => Promise<SwitchedPrediction>;

// A captured head, counted through all layers.
export interface CountedHead {
  layer: number;
  head: number; // index among the captured heads of the layer
}

export function countedHeads(side: Side): CountedHead[] {
  return side.layers.flatMap(({ heads }, layer) => heads.map((_, head) => ({ layer, head })));
}

export function switchRequest(side: Side, off: number[], position: number | null): SwitchRequest {
  const heads = countedHeads(side);
  return {
    heads: off.flatMap((index): SwitchRequest['heads'] => {
      const { layer, head } = heads[index] ?? { layer: -1, head: -1 };
      const info = side.layers[layer];
      return info ? [[info.name, info.heads[head]]] : [];
    }),
    position,
  };
}

// What a kernel answered. It is checked, because anything can arrive.
export function readPrediction(raw: unknown): SwitchedPrediction {
  const { error, target, top } = (raw ?? {}) as Record<string, unknown>;
  if (typeof error === 'string') throw new Error(error);
  return { target: readCandidate(target), top: Array.isArray(top) ? top.map(readCandidate) : [] };
}

function readCandidate(raw: unknown): Candidate {
  const { token, before, after } = (raw ?? {}) as Record<string, unknown>;
  if (typeof token !== 'string' || !isProbability(before) || !isProbability(after))
    throw new Error('The answer of the model cannot be read.');
  return { token, before, after };
}

const isProbability = (raw: unknown): raw is number =>
  typeof raw === 'number' && raw >= 0 && raw <= 1 + 1e-6;

// The messages of a notebook widget, as anywidget offers them.
export interface MessageChannel {
  send: (content: unknown) => void;
  on: (event: 'msg:custom', listen: (content: unknown) => void) => void;
  off: (event: 'msg:custom', listen: (content: unknown) => void) => void;
}

// Every request has a number, which its answer repeats.
export function openSwitchChannel(model: MessageChannel): { ask: SwitchHeads; close: () => void } {
  const waiting = new Map<number, (answer: unknown) => void>();
  let last = 0;
  const listen = (content: unknown): void => {
    const { kind, number, answer } = (content ?? {}) as Record<string, unknown>;
    if (kind !== 'switched' || typeof number !== 'number') return;
    waiting.get(number)?.(answer);
    waiting.delete(number);
  };
  model.on('msg:custom', listen);
  return {
    ask: (request, signal) =>
      new Promise((resolve, reject) => {
        const number = (last += 1);
        signal.addEventListener('abort', () => waiting.delete(number));
        waiting.set(number, (answer) => {
          try {
            resolve(readPrediction(answer));
          } catch (error) {
            reject(error as Error);
          }
        });
        model.send({ kind: 'switch', number, request });
      }),
    close: () => model.off('msg:custom', listen),
  };
}
