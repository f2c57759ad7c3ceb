// Ask: questions to a run that learned facts, and how much its answers are worth.

import { useEffect, useState } from 'preact/hooks';
import { plain } from '../report/prose';
import { ask } from './api';
import type { Answer, Thresholds } from './api-types';
import { AnswerCard } from './answer-card';
import { Audit } from './audit';
import { useClient, useKept } from './client';
import type { Page } from './page';
import { Busy, Empty, Examples, Failure, RunPicker, useWork } from './parts';
import type { Router } from './router';

export interface Asked {
  key: number;
  run: string;
  answer: Answer;
  threshold: Thresholds;
}

const KEPT = 100; // answers on the page

export const askPage: Page = {
  name: 'ask',
  title: 'Ask',
  Shown: AskPage,
  invites: { ask: 'Ask it' },
};

function AskPage({ router }: { router: Router }) {
  return (
    <div class="page">
      <h1>Ask</h1>
      <p class="lead">
        Questions to a model that learned facts. Each answer says how sure the model is, and whether
        that is enough to call it known.
      </p>
      <RunPicker can={['ask']} router={router} none={<NoRun />}>
        {(run) => (
          <>
            <Questions key={`questions ${run}`} run={run} router={router} />
            <Audit key={`audit ${run}`} run={run} />
          </>
        )}
      </RunPicker>
    </div>
  );
}

function NoRun() {
  return (
    <Empty title="No run can answer questions yet">
      <Examples can={['ask']} />
    </Empty>
  );
}

function Questions({ run, router }: { run: string; router: Router }) {
  const { info } = useClient();
  const [text, setText] = useKept('ask text', '');
  const [all, setAll] = useKept<Asked[]>('asked', []);
  const [open, setOpen] = useState<number | null>(null);
  const examples = useExamples(run);
  const work = useWork();
  const lines = text
    .split('\n')
    .map((line) => line.trim())
    .filter(Boolean);
  const most = info?.limits.questions ?? 20;
  const send = (questions: string[]): void => {
    if (!questions.length || work.busy) return; // the last ones are not thrown away
    work.run(async (signal) => {
      const { answers, threshold } = await ask('POST /api/ask', { body: { run, questions }, signal });
      const fresh = answers.map((answer, i) => ({ key: Date.now() * 100 + i, run, answer, threshold }));
      setAll((old) => [...fresh, ...old].slice(0, KEPT));
      setOpen(null);
    });
  };
  const shown = all.filter((each) => each.run === run);
  return (
    <>
      <form
        class="asking"
        onSubmit={(event) => {
          event.preventDefault();
          send(lines.slice(0, most));
        }}
      >
        <label class="field wide-field">
          <span>Questions, one in each line</span>
          <textarea
            rows={Math.min(8, Math.max(2, text.split('\n').length))}
            value={text}
            spellcheck={false}
            placeholder={examples[0] ? plain(examples[0]) : 'Where was … born?'}
            onInput={(event) => setText(event.currentTarget.value)}
            onKeyDown={(event) => {
              if (event.key !== 'Enter' || event.shiftKey || event.isComposing) return;
              event.preventDefault();
              send(lines.slice(0, most));
            }}
          />
        </label>
        <div class="row">
          <button type="submit" class="main" disabled={!lines.length || work.busy}>
            Ask
          </button>
          <span class="dim small">
            {lines.length > most ? `Only the first ${most} are asked.` : 'Enter asks, Shift and Enter begin a line.'}
          </span>
          {shown.length > 0 && (
            <button
              type="button"
              class="plainly last"
              onClick={() => setAll(all.filter((each) => each.run !== run))}
            >
              Clear
            </button>
          )}
        </div>
      </form>
      {examples.length > 0 && (
        <p class="chips" aria-label="Questions to try">
          {examples.map((each) => (
            <button key={each} type="button" class="plainly" disabled={work.busy} onClick={() => send([each])}>
              <bdi>{plain(each)}</bdi>
            </button>
          ))}
        </p>
      )}
      {work.busy && <Busy text="The model answers…" />}
      <Failure text={work.failure} />
      <div class="answers" aria-live="polite">
        {shown.map((asked) => (
          <AnswerCard
            key={asked.key}
            {...{ asked, router }}
            open={open === asked.key}
            toggle={() => setOpen(open === asked.key ? null : asked.key)}
          />
        ))}
      </div>
    </>
  );
}

function useExamples(run: string): string[] {
  const { link } = useClient();
  const live = link.state === 'live'; // once more when the connection is back
  const [examples, setExamples] = useState<string[]>([]);
  useEffect(() => {
    const controller = new AbortController();
    ask('GET /api/run', { query: { run }, signal: controller.signal }).then(
      (found) => setExamples(found.examples.slice(0, 4)),
      () => undefined, // only a help
    );
    return () => controller.abort();
  }, [run, live]);
  return examples;
}
