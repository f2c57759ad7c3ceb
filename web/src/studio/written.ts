// Summaries as they come, token by token.

import { isRecord, list, readNumber, text } from '../report/plot';
import { finite, records } from './reading';
import type { Source } from './traces';

export interface Word {
  text: string;
  sources: Source[];
  copied: number | null; // how sure it was taken from the text as it stands
}

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

const MANY = 64;

// What is written after an event; a Refused sentence is thrown by the caller.
export function heard(written: Written, name: string, raw: unknown): Written {
  if (name === 'done') return finished(written);
  if (!isRecord(raw)) return written;
  if (name === 'cut') return { ...written, cut: cutWords(raw), cutAt: finite(raw.at) };
  const at = finite(raw.summary);
  if (at === null || at < 0 || at >= MANY || !Number.isInteger(at)) return written;
  const old = written.summaries[at] ?? fresh();
  if (name === 'token') return put(written, at, { ...old, text: old.text + text(raw.text) });
  if (name === 'draft') return put(written, at, { ...fresh(), text: text(raw.text) }); // of a search
  if (name !== 'summary') return written;
  const words = records(raw.words).map(readWord);
  const whole = text(raw.text) || words.map((word) => word.text).join('');
  return put(written, at, { text: whole, words, logProbability: finite(raw.log_probability) });
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

function readWord(raw: Record<string, unknown>): Word {
  const sources = list(raw.sources)
    .filter(isRecord)
    .map(({ start, end, weight }) => ({
      start: readNumber(start),
      end: readNumber(end),
      weight: readNumber(weight),
    }));
  return { text: text(raw.text), sources, copied: finite(raw.copied) };
}

function cutWords(raw: Record<string, unknown>): string {
  const [read, cut] = [finite(raw.read), finite(raw.cut)];
  if (read === null || cut === null) return text(raw.message) || 'The text is longer than this model reads.';
  return `This model reads ${read.toLocaleString('en')} tokens: the last ${cut.toLocaleString('en')} were not read.`;
}
