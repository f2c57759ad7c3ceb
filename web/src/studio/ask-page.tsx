// Ask: questions to a run that was trained on facts, and the confidence of its answers.

import { useEffect, useState } from 'preact/hooks';
import { plainText } from '../report/text-format';
import { request } from './api';
import type { AnswerResponse, ExampleInput, Thresholds } from './api-types';
import { AnswerCard } from './answer-card';
import { Audit } from './audit';
import { useWindowState, useRemembered } from './window-state';
import type { Page } from './page-declaration';
import { ExampleChips } from './example-chips';
import { BusyMessage, EmptyPage, Examples, Failure, RunPicker, useTask } from './components';
import type { Router } from './router';

export interface AnsweredQuestion {
  key: number;
  run: string;
  answer: AnswerResponse;
  threshold: Thresholds;
}

const MAX_ANSWERS = 100; // answers on the page

export const askPage: Page = {
  name: 'ask',
  title: 'Ask',
  Component: AskPage,
  links: { ask: 'Ask it' },
};

function AskPage({ router }: { router: Router }) {
  return (
    <div class="page">
      <h1>Ask</h1>
      <p class="lead">
        Ask a model that was trained on facts. Each answer shows the confidence of the model, and
        whether that is enough to call it known.
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
    <EmptyPage title="No run can answer questions yet">
      <Examples can={['ask']} />
    </EmptyPage>
  );
}

function Questions({ run, router }: { run: string; router: Router }) {
  const { info } = useWindowState();
  const [text, setText] = useRemembered('ask text', '');
  const [all, setAll] = useRemembered<AnsweredQuestion[]>('answered questions', []);
  const [open, setOpen] = useState<number | null>(null);
  const examples = useExamples(run);
  const work = useTask();
  const lines = text
    .split('\n')
    .map((line) => line.trim())
    .filter(Boolean);
  const maxQuestions = info?.limits.questions ?? 20;
  const send = (questions: string[]): void => {
    if (!questions.length || work.busy) return; // keep the questions that are being answered
    work.run(async (signal) => {
      const { answers, threshold } = await request('POST /api/ask', { body: { run, questions }, signal });
      const fresh = answers.map((answer, i) => ({ key: Date.now() * 100 + i, run, answer, threshold }));
      setAll((old) => [...fresh, ...old].slice(0, MAX_ANSWERS));
      setOpen(null);
    });
  };
  const shown = all.filter((answer) => answer.run === run);
  return (
    <>
      <form
        class="asking"
        onSubmit={(event) => {
          event.preventDefault();
          send(lines.slice(0, maxQuestions));
        }}
      >
        <label class="field wide-field">
          <span>Questions, one per line</span>
          <textarea
            rows={Math.min(8, Math.max(2, text.split('\n').length))}
            value={text}
            spellcheck={false}
            placeholder={examples[0] ? plainText(examples[0].text) : 'Where was … born?'}
            onInput={(event) => setText(event.currentTarget.value)}
            onKeyDown={(event) => {
              if (event.key !== 'Enter' || event.shiftKey || event.isComposing) return;
              event.preventDefault();
              send(lines.slice(0, maxQuestions));
            }}
          />
        </label>
        <div class="row">
          <button type="submit" class="main" disabled={!lines.length || work.busy}>
            Ask
          </button>
          <span class="dim small">
            {lines.length > maxQuestions ? `Only the first ${maxQuestions} are sent.` : 'Enter sends them; Shift+Enter starts a new line.'}
          </span>
          {shown.length > 0 && (
            <button
              type="button"
              class="plainly last"
              onClick={() => setAll(all.filter((answer) => answer.run !== run))}
            >
              Clear
            </button>
          )}
        </div>
      </form>
      <ExampleChips examples={examples} disabled={work.busy} take={(question) => send([question])} />
      {work.busy && <BusyMessage text="The model answers…" />}
      <Failure text={work.failure} />
      <div class="answers" aria-live="polite">
        {shown.map((answered) => (
          <AnswerCard
            key={answered.key}
            {...{ answered, router }}
            right={examples.find(({ text }) => text === answered.answer.question)?.answer ?? null}
            open={open === answered.key}
            toggle={() => setOpen(open === answered.key ? null : answered.key)}
          />
        ))}
      </div>
    </>
  );
}

function useExamples(run: string): ExampleInput[] {
  const { link } = useWindowState();
  const live = link.state === 'live'; // again when the connection is back
  const [examples, setExamples] = useState<ExampleInput[]>([]);
  useEffect(() => {
    const controller = new AbortController();
    request('GET /api/run', { query: { run }, signal: controller.signal }).then(
      (details) => setExamples(details.examples),
      () => undefined, // examples are optional
    );
    return () => controller.abort();
  }, [run, live]);
  return examples;
}
