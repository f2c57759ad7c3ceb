// The generated texts. The Tab key goes from text to text, arrow keys from word to word.

import { formatShort } from '../report/number-format';
import { plainText } from '../report/text-format';
import { formatPercent } from './format';
import type { SelectedWord } from './source-text';
import { strongestSources } from './word-sources';
import type { GeneratedWord } from './api-types';
import type { Generation, GenerationState } from './generation-events';

interface Props {
  state: GenerationState;
  source: string;
  busy: boolean;
  selected: SelectedWord | null;
  select: (selected: SelectedWord | null) => void;
}

export function Generations({ state, source, busy, selected, select }: Props) {
  return (
    <section class="generations" aria-label="Generated texts" aria-busy={busy}>
      {state.truncation && <p class="dim small">{state.truncation}</p>}
      {busy && !state.generations.length && <p class="dim">The model reads the text…</p>}
      <ol>
        {state.generations.map((generation, i) => (
          <GenerationView key={i} index={i} {...{ generation, source, selected, select, busy }} />
        ))}
      </ol>
      {state.done && state.generations.some(hasSources) && (
        <p class="dim small">Point at a word, or use Tab and the arrow keys, to mark its sources.</p>
      )}
      {state.done && !state.generations.length && <p class="dim">The model generated no text.</p>}
    </section>
  );
}

// The words of a language model have no sources.
function hasSources({ words }: Generation): boolean {
  return words?.some(({ sources }) => sources.length > 0) ?? false;
}

interface GenerationProps {
  index: number;
  generation: Generation;
  source: string;
  busy: boolean;
  selected: SelectedWord | null;
  select: (selected: SelectedWord | null) => void;
}

function GenerationView({ index, generation, source, busy, selected, select }: GenerationProps) {
  const { words } = generation;
  const on = selected?.generation === index ? selected.word : null;
  const show = (word: number): void => {
    if (words?.[word]) select({ generation: index, word, sources: words[word].sources });
  };
  const press = (event: KeyboardEvent): void => {
    if (event.key === 'Escape') select(null);
    const last = (words?.length ?? 0) - 1;
    const to = nextIndex(event.key, on ?? -1, last);
    if (to === null || last < 0) return;
    event.preventDefault();
    show(to);
  };
  const sources = on === null ? [] : strongestSources(source, selected?.sources ?? []);
  return (
    <li class="generation">
      <p
        tabIndex={words ? 0 : undefined}
        role={words ? 'application' : undefined}
        aria-roledescription="generated text"
        aria-label={words ? `Text ${index + 1}: ${plainText(generation.text)} Arrow keys go from word to word.` : undefined}
        onKeyDown={press}
        onPointerLeave={(event) => event.pointerType === 'mouse' && select(null)}
      >
        {words
          ? words.map((word, i) => (
              <span
                key={i}
                class={i === on ? 'word on' : 'word'}
                onPointerEnter={() => show(i)}
                onPointerDown={() => show(i)}
              >
                <WordText text={word.text} />
              </span>
            ))
          : plainText(generation.text)}
        {!words && busy && <span class="caret" aria-hidden="true" />}
      </p>
      <p class="dim small number traced" aria-live="polite">
        {sources.length > 0 && on !== null && words
          ? `${plainText(words[on].text.trim())} from ${plainText(sources.join(', '))}${describeCopied(words[on])}`
          : generation.logProbability !== null && `log-probability ${formatShort(generation.logProbability)}`}
      </p>
    </li>
  );
}

function describeCopied({ copied }: GeneratedWord): string {
  return copied === null ? '' : `; copied: ${formatPercent(copied)}`;
}

// Marks the letters, not the space before them.
function WordText({ text }: { text: string }) {
  const body = text.trimStart();
  return (
    <>
      {plainText(text.slice(0, text.length - body.length))}
      <b>{plainText(body)}</b>
    </>
  );
}

function nextIndex(key: string, index: number, last: number): number | null {
  if (key === 'ArrowRight' || key === 'ArrowDown') return Math.min(last, index + 1);
  if (key === 'ArrowLeft' || key === 'ArrowUp') return Math.max(0, index - 1);
  if (key === 'Home') return 0;
  return key === 'End' ? last : null;
}
