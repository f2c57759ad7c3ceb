// Summaries as they come, token by token.

import type { Event } from './api';
import type { CutEvent, Word } from './api-types';

export interface Summary {
  text: string;
  words: Word[] | null; // null: still being written
  logProbability: number | null;
}

export interface Written {
  summaries: Summary[];
  cut: string; // what was not read; empty: nothing
  cutAt: number | null; // where reading stopped, in the text
  done: boolean;
}

export const NOTHING: Written = { summaries: [], cut: '', cutAt: null, done: false };

// What is written after an event; a Refused sentence is thrown by the caller.
export function heard(written: Written, { name, data }: Event<'POST /api/write'>): Written {
  if (name === 'done') return finished(written);
  if (name === 'cut') return { ...written, cut: cutWords(data), cutAt: data.at };
  if (name === 'error') return written;
  const { summary: at, text } = data;
  const old = written.summaries[at] ?? fresh();
  if (name === 'token') return put(written, at, { ...old, text: old.text + text });
  if (name === 'draft') return put(written, at, { ...fresh(), text }); // of a search
  return put(written, at, { text, words: data.words, logProbability: data.log_probability });
}

// Drafts at the end that no summary came of were taken back: draws that read like others.
function finished(written: Written): Written {
  const last = written.summaries.map((each) => each.words !== null).lastIndexOf(true);
  return { ...written, summaries: written.summaries.slice(0, last + 1), done: true };
}

function fresh(): Summary {
  return { text: '', words: null, logProbability: null };
}

function put(written: Written, at: number, summary: Summary): Written {
  const summaries = Array.from(
    { length: Math.max(at + 1, written.summaries.length) },
    (_, i) => (i === at ? summary : (written.summaries[i] ?? fresh())),
  );
  return { ...written, summaries };
}

function cutWords({ read, cut }: CutEvent): string {
  return `This model reads ${read.toLocaleString('en')} tokens: the last ${cut.toLocaleString('en')} were not read.`;
}
