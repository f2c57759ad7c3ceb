// Collects the events of generated texts, token by token.

import type { Event } from './api';
import type { TruncationEvent, GeneratedWord } from './api-types';

export interface Generation {
  text: string;
  words: GeneratedWord[] | null; // null while it is being generated
  logProbability: number | null;
}

export interface GenerationState {
  generations: Generation[];
  truncation: string; // a message about the part of the text that was not read, else empty
  cutAt: number | null; // the index of the first character that was not read
  done: boolean;
}

export const NO_GENERATIONS: GenerationState = { generations: [], truncation: '', cutAt: null, done: false };

// The state after an event. The caller handles the event `error`.
export function applyEvent(state: GenerationState, { name, data }: Event<'POST /api/write'>): GenerationState {
  if (name === 'done') return finish(state);
  if (name === 'cut') return { ...state, truncation: describeTruncation(data), cutAt: data.at };
  if (name === 'error') return state;
  const { generation: index, text } = data;
  const old = state.generations[index] ?? emptyGeneration();
  if (name === 'token') return replace(state, index, { ...old, text: old.text + text });
  if (name === 'draft') return replace(state, index, { ...emptyGeneration(), text }); // of a beam search
  return replace(state, index, { text, words: data.words, logProbability: data.log_probability });
}

// Removes drafts at the end without a complete text: they repeated other samples.
function finish(state: GenerationState): GenerationState {
  const last = state.generations.map(({ words }) => words !== null).lastIndexOf(true);
  return { ...state, generations: state.generations.slice(0, last + 1), done: true };
}

function emptyGeneration(): Generation {
  return { text: '', words: null, logProbability: null };
}

function replace(state: GenerationState, index: number, generation: Generation): GenerationState {
  const generations = Array.from(
    { length: Math.max(index + 1, state.generations.length) },
    (_, i) => (i === index ? generation : (state.generations[i] ?? emptyGeneration())),
  );
  return { ...state, generations };
}

function describeTruncation({ read, cut }: TruncationEvent): string {
  return `This model reads ${read.toLocaleString('en')} tokens: the last ${cut.toLocaleString('en')} were not read.`;
}
