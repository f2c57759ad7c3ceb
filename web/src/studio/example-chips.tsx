// Inputs to try, by kind: a click takes one.

import { plainText } from '../report/text-format';
import type { ExampleInput } from './api-types';

// Sentences that are often used to explain attention.
export const SENTENCES = [
  'The animal did not cross the street because it was too tired.',
  'The dog sitting in the car',
  'I was going to play at the park.',
].map((text) => ({ kind: 'famous sentences', text, answer: null }));

// Two texts that one word tells apart, and two that belong together.
export const PAIRS: [string, string][] = [
  ['I was going to play at the park.', 'I was going to a play in the park.'],
  ['I am happy', 'I am not sad'],
];

export const BEGINNINGS = ['The city of', 'Once upon a time there was', 'To be or not to be'].map((text) => (
  { kind: 'to continue', text, answer: null }
));

export const ARTICLES = [
  'The package reads tables from files of several formats and writes them again. It checks each column, '
    + 'reports rows that it could not read, and can join two tables by a common column.',
  'A library to draw maps. It downloads nothing: all borders come with it. Maps can be zoomed, colored by '
    + 'a column of a table, and saved as SVG or PNG.',
].map((text) => ({ kind: 'to summarize', text, answer: null }));

interface Props {
  examples: ExampleInput[];
  disabled?: boolean;
  take: (text: string) => void;
}

export function ExampleChips({ examples, disabled, take }: Props) {
  const kinds = [...new Set(examples.map(({ kind }) => kind))];
  if (!kinds.length) return null;
  return (
    <div class="examples">
      {kinds.map((kind) => (
        <p key={kind} class="chips" role="group" aria-label={`To try: ${kind}`}>
          <span class="dim small">{plainText(kind)}</span>
          {examples.map((example) => example.kind === kind && (
            <button
              key={example.text}
              type="button"
              class="plainly"
              disabled={disabled}
              title={example.answer === null ? undefined : `Right answer: ${plainText(example.answer)}`}
              onClick={() => take(example.text)}
            >
              <bdi>{shorten(plainText(example.text))}</bdi>
            </button>
          ))}
        </p>
      ))}
    </div>
  );
}

const shorten = (text: string): string => (text.length > 70 ? `${text.slice(0, 66)} …` : text);
