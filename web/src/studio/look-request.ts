// Builds the requests of the look page.

import type { Api, LookRequest } from './api-types';

type ImageQuery = Api['POST /api/look/image']['query'];

export interface LookOptions {
  text: string;
  second: string;
  otherText: string; // to compare with, read by the same model
  generate: string;
  neurons: boolean;
}

export const DEFAULT_LOOK_OPTIONS: LookOptions = { text: '', second: '', otherText: '', generate: '0', neurons: true };

// Values of the field "compare" that are not the key of a run or a model.
export const UNTRAINED = 'untrained';
export const OTHER_TEXT = 'text';

// "run:ID" or "model:ID"
function splitKey(key: string): [string, string] {
  const colon = key.indexOf(':');
  return [key.slice(0, colon), key.slice(colon + 1)];
}

// In the server's format: a run is its id, a model is an object.
function lookTarget(key: string): string | { model: string } {
  const [kind, id] = splitKey(key);
  return kind === 'model' ? { model: id } : id;
}

const isModelKey = (key: string): boolean => key.includes(':');

export function lookRequestBody(options: LookOptions, modelKey: string, compare: string): LookRequest {
  const newTokens = Number(options.generate);
  return {
    target: lookTarget(modelKey),
    text: options.text,
    neurons: options.neurons,
    ...(options.second.trim() ? { second: options.second } : {}),
    ...(newTokens ? { generate: newTokens } : {}),
    ...(compare === UNTRAINED ? { untrained: true } : {}),
    ...(compare === OTHER_TEXT ? { compare_text: options.otherText } : {}),
    ...(isModelKey(compare) ? { compare: lookTarget(compare) } : {}),
  };
}

// The body of the request is the image, so the options are in the address.
export function lookImageQuery(options: LookOptions, modelKey: string, compare: string): ImageQuery {
  const [kind, id] = splitKey(modelKey);
  const [compareKind, compareId] = splitKey(compare);
  return {
    [kind]: id,
    neurons: options.neurons,
    ...(compare === UNTRAINED ? { untrained: true } : {}),
    ...(isModelKey(compare) ? { [`compare_${compareKind}`]: compareId } : {}),
  };
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
