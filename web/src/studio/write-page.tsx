// Write: generates texts, and marks the sources of each word in the input.

import { useState } from 'preact/hooks';
import { RequestError, stream } from './api';
import { useWindowState, useRemembered } from './window-state';
import type { Page } from './page-declaration';
import { ARTICLES, BEGINNINGS, ExampleChips } from './example-chips';
import { EmptyPage, Examples, Failure, RunPicker, useTask } from './components';
import type { Router } from './router';
import { SourceText, type SelectedWord } from './source-text';
import { Generations } from './generations';
import { DEFAULT_OPTIONS, checkOptions, GenerationOptionFields, type GenerationOptions } from './generation-options';
import { applyEvent, NO_GENERATIONS, type GenerationState } from './generation-events';

const CAN = ['write', 'generate'];

export const writePage: Page = {
  name: 'write',
  title: 'Write',
  Component: WritePage,
  links: { write: 'Let it write', generate: 'Let it write' },
};

function WritePage({ router }: { router: Router }) {
  return (
    <div class="page">
      <h1>Write</h1>
      <p class="lead">
        Give a text, and the model summarizes it; a language model continues it. Point at a word of
        a summary to mark the places of the text that it came from.
      </p>
      <RunPicker can={CAN} router={router} none={<NoRun />}>
        {(run) => <WritingForm key={run} run={run} />}
      </RunPicker>
    </div>
  );
}

function NoRun() {
  return (
    <EmptyPage title="No run can write yet">
      <Examples can={CAN} />
    </EmptyPage>
  );
}

function WritingForm({ run }: { run: string }) {
  const { info, runs } = useWindowState();
  const [typed, setTyped] = useRemembered('write text', '');
  const [options, setOptions] = useRemembered<GenerationOptions>('write options', DEFAULT_OPTIONS);
  const [result, setResult] = useRemembered<{ run: string; text: string; state: GenerationState } | null>(
    'generated texts',
    null,
  );
  const [selected, setSelected] = useState<SelectedWord | null>(null);
  const work = useTask();
  const shown = result?.run === run ? result : null;
  const text = shown?.text ?? typed; // a shown result belongs to its own text
  const limit = info?.limits.text ?? Infinity;
  const continues = runs?.find(({ id }) => id === run)?.can.includes('generate');
  const label = continues ? 'Continuations' : 'Summaries';
  const { request, problem } = checkOptions(options, info?.limits.generations ?? 8, label);
  const start = (): void => {
    if (!text.trim() || problem) return;
    setSelected(null);
    setResult({ run: run, text, state: NO_GENERATIONS });
    work.run(async (signal) => {
      let state = NO_GENERATIONS;
      for await (const event of stream('POST /api/write', { body: { run, text, ...request }, signal })) {
        if (event.name === 'error') throw new RequestError(event.data.error, 200);
        state = applyEvent(state, event);
        setResult({ run: run, text, state });
      }
      if (!state.done) throw new Error('The model stopped before the text was complete.');
    });
  };
  return (
    <div class="desk">
      <div class="text-side">
        {shown ? (
          <SourceText
            text={shown.text}
            cutAt={shown.state.cutAt}
            selected={selected}
            edit={() => {
              work.stop();
              setTyped(shown.text);
              setResult(null);
            }}
          />
        ) : (
          <label class="field wide-field">
            <span>
              Text <span class="dim number">{text.length.toLocaleString('en')} characters</span>
            </span>
            <textarea
              class="long-text"
              rows={14}
              value={text}
              placeholder="Paste a text here."
              onInput={(event) => setTyped(event.currentTarget.value)}
              onKeyDown={(event) => {
                if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) start();
              }}
            />
          </label>
        )}
        {!shown && (
          <ExampleChips examples={continues ? BEGINNINGS : ARTICLES} disabled={work.busy} take={setTyped} />
        )}
        {text.length > limit && (
          <p class="message warn">The studio takes at most {limit.toLocaleString('en')} characters.</p>
        )}
      </div>
      <div class="result-side">
        <GenerationOptionFields options={options} change={setOptions} maxCount={info?.limits.generations ?? 8} label={label} />
        <div class="row">
          <button
            type="button"
            class="main"
            disabled={work.busy || Boolean(problem) || !text.trim() || text.length > limit}
            onClick={start}
          >
            {shown ? 'Write again' : 'Write'}
          </button>
          {work.busy && (
            <button type="button" onClick={work.stop}>
              Stop
            </button>
          )}
          {problem && <span class="warn small">{problem}</span>}
        </div>
        <Failure text={work.failure} />
        {shown && (
          <Generations
            state={shown.state}
            source={shown.text}
            busy={work.busy}
            {...{ selected, select: setSelected }}
          />
        )}
      </div>
    </div>
  );
}
