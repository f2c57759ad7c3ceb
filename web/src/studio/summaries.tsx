// The summaries; each is one stop of the Tab key, arrows go from word to word.

import { short } from '../report/numbers';
import { plain } from '../report/prose';
import { percent } from './format';
import type { Pointed } from './source-text';
import { strongest } from './traces';
import type { Word } from './api-types';
import type { Summary, Written } from './written';

interface Props {
  found: Written;
  source: string;
  busy: boolean;
  pointed: Pointed | null;
  point: (pointed: Pointed | null) => void;
}

export function Summaries({ found, source, busy, pointed, point }: Props) {
  return (
    <section class="summaries" aria-label="Summaries" aria-busy={busy}>
      {found.cut && <p class="dim small">{found.cut}</p>}
      {busy && !found.summaries.length && <p class="dim">The model reads…</p>}
      <ol>
        {found.summaries.map((summary, i) => (
          <One key={i} at={i} {...{ summary, source, pointed, point, busy }} />
        ))}
      </ol>
      {found.done && found.summaries.some(traceable) && (
        <p class="dim small">Point at a word, or use Tab and the arrow keys: its sources are marked.</p>
      )}
      {found.done && !found.summaries.length && <p class="dim">Nothing was written.</p>}
    </section>
  );
}

// A language model goes on: its words have no source.
function traceable({ words }: Summary): boolean {
  return words?.some(({ sources }) => sources.length > 0) ?? false;
}

interface OneProps {
  at: number;
  summary: Summary;
  source: string;
  busy: boolean;
  pointed: Pointed | null;
  point: (pointed: Pointed | null) => void;
}

function One({ at, summary, source, busy, pointed, point }: OneProps) {
  const { words } = summary;
  const on = pointed?.summary === at ? pointed.word : null;
  const show = (word: number): void => {
    if (words?.[word]) point({ summary: at, word, sources: words[word].sources });
  };
  const press = (event: KeyboardEvent): void => {
    if (event.key === 'Escape') point(null);
    const last = (words?.length ?? 0) - 1;
    const to = stepped(event.key, on ?? -1, last);
    if (to === null || last < 0) return;
    event.preventDefault();
    show(to);
  };
  const traced = on === null ? [] : strongest(source, pointed?.sources ?? []);
  return (
    <li class="summary">
      <p
        tabIndex={words ? 0 : undefined}
        role={words ? 'application' : undefined}
        aria-roledescription="summary"
        aria-label={words ? `Summary ${at + 1}: ${plain(summary.text)} Arrow keys go from word to word.` : undefined}
        onKeyDown={press}
        onPointerLeave={(event) => event.pointerType === 'mouse' && point(null)}
      >
        {words
          ? words.map((word, i) => (
              <span
                key={i}
                class={i === on ? 'word on' : 'word'}
                onPointerEnter={() => show(i)}
                onPointerDown={() => show(i)}
              >
                <Bare text={word.text} />
              </span>
            ))
          : plain(summary.text)}
        {!words && busy && <span class="caret" aria-hidden="true" />}
      </p>
      <p class="dim small number traced" aria-live="polite">
        {traced.length > 0 && on !== null && words
          ? `${plain(words[on].text.trim())} from ${plain(traced.join(', '))}${copied(words[on])}`
          : summary.logProbability !== null && `log-probability ${short(summary.logProbability)}`}
      </p>
    </li>
  );
}

function copied({ copied: share }: Word): string {
  return share === null ? '' : `; copied: ${percent(share)}`;
}

// The mark lies on the letters, not on the space before them.
function Bare({ text }: { text: string }) {
  const body = text.trimStart();
  return (
    <>
      {plain(text.slice(0, text.length - body.length))}
      <b>{plain(body)}</b>
    </>
  );
}

function stepped(key: string, at: number, last: number): number | null {
  if (key === 'ArrowRight' || key === 'ArrowDown') return Math.min(last, at + 1);
  if (key === 'ArrowLeft' || key === 'ArrowUp') return Math.max(0, at - 1);
  if (key === 'Home') return 0;
  return key === 'End' ? last : null;
}
