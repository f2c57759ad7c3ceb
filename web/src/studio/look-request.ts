// Builds the requests of the look page.

import type { Api, LookRequest } from './api-types';

type ImageQuery = Api['POST /api/look/image']['query'];

export interface LookOptions {
  text: string;
  second: string;
  otherText: string; // to compare with, read by the same model
  generate: string;
  neurons: boolean;
  effects: boolean;
}

export const DEFAULT_LOOK_OPTIONS: LookOptions = { text: '', second: '', otherText: '', generate: '0', neurons: true, effects: false };

// Values of the field "compare" that are not the key of a run or a model.
export const UNTRAINED = 'untrained';
export const OTHER_TEXT = 'text';

// `modelKey` is "run:ID" or "model:ID"; `compare` is such a key, UNTRAINED, OTHER_TEXT or empty.
export function lookRequestBody(options: LookOptions, modelKey: string, compare: string): LookRequest {
  const newTokens = Number(options.generate);
  return {
    target: modelKey,
    text: options.text,
    neurons: options.neurons,
    ...(options.effects ? { effects: true } : {}),
    ...(options.second.trim() ? { second: options.second } : {}),
    ...(newTokens ? { generate: newTokens } : {}),
    ...(compare ? { compare: compare === OTHER_TEXT ? { text: options.otherText } : compare } : {}),
  };
}

// The body of the request is the image, so the options are in the address.
export function lookImageQuery(options: LookOptions, modelKey: string, compare: string): ImageQuery {
  return { target: modelKey, neurons: options.neurons, ...(options.effects ? { effects: true } : {}), ...(compare ? { compare } : {}) };
}

// Describes what is missing or wrong. Null if the request can be sent; '' if there is no text yet.
export function findProblem(options: LookOptions, compare: string, image: boolean, maxTokens: number): string | null {
  if (image) return null;
  if (!options.text.trim()) return '';
  const newTokens = Number(options.generate);
  if (!Number.isInteger(newTokens) || newTokens < 0 || newTokens > maxTokens)
    return `Tokens to write on: give a whole number from 0 to ${maxTokens}.`;
  return compare === OTHER_TEXT && !options.otherText.trim() ? 'Give the text to compare with.' : null;
}
