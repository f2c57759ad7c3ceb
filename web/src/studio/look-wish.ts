// What the look page asks the server for.

import type { Api, LookRequest } from './api-types';

type ImageQuery = Api['POST /api/look/image']['query'];

export interface Wish {
  text: string;
  second: string;
  other: string; // a text that the same model reads, to compare with
  generate: string;
  neurons: boolean;
}

export const EMPTY: Wish = { text: '', second: '', other: '', generate: '0', neurons: true };

// What to compare with; else the key of a run or a model.
export const UNTRAINED = 'untrained';
export const TEXT = 'text';

// "run:ID" or "model:ID"
function split(key: string): [string, string] {
  const colon = key.indexOf(':');
  return [key.slice(0, colon), key.slice(colon + 1)];
}

// As the server takes it: a run by its id, a model in an object.
function named(key: string): string | { model: string } {
  const [kind, id] = split(key);
  return kind === 'model' ? { model: id } : id;
}

const isSubject = (key: string): boolean => key.includes(':');

export function textBody(wish: Wish, subject: string, compare: string): LookRequest {
  const written = Number(wish.generate);
  return {
    subject: named(subject),
    text: wish.text,
    neurons: wish.neurons,
    ...(wish.second.trim() ? { second: wish.second } : {}),
    ...(written ? { generate: written } : {}),
    ...(compare === UNTRAINED ? { untrained: true } : {}),
    ...(compare === TEXT ? { compare_text: wish.other } : {}),
    ...(isSubject(compare) ? { compare: named(compare) } : {}),
  };
}

// An image is the body itself, so these stand in the address.
export function imageQuery(wish: Wish, subject: string, compare: string): ImageQuery {
  const [kind, id] = split(subject);
  const [other, its] = split(compare);
  return {
    [kind]: id,
    neurons: wish.neurons,
    ...(compare === UNTRAINED ? { untrained: true } : {}),
    ...(isSubject(compare) ? { [`compare_${other}`]: its } : {}),
  };
}

// What is missing or wrong, in words; null: it can be asked. An empty one needs no words.
export function wrongWith(wish: Wish, compare: string, image: boolean, most: number): string | null {
  if (image) return null;
  if (!wish.text.trim()) return '';
  const written = Number(wish.generate);
  if (!Number.isInteger(written) || written < 0 || written > most)
    return `Tokens to write on: a whole number from 0 to ${most}.`;
  return compare === TEXT && !wish.other.trim() ? 'Give the text to compare with.' : null;
}
