// Write: a text, and what a model makes of it, word by word with where each came from.

import { useState } from 'preact/hooks';
import { Refused, stream } from './api';
import { useClient, useKept } from './client';
import type { Page } from './page';
import { Empty, Examples, Failure, RunPicker, useWork } from './parts';
import type { Router } from './router';
import { Source, type Pointed } from './source-text';
import { Summaries } from './summaries';
import { GIVEN, wayOf, Ways, type Way } from './ways';
import { heard, NOTHING, type Written } from './written';

const CAN = ['write', 'generate'];

export const writePage: Page = {
  name: 'write',
  title: 'Write',
  Shown: WritePage,
  invites: { write: 'Let it write', generate: 'Let it write' },
};

function WritePage({ router }: { router: Router }) {
  return (
    <div class="page">
      <h1>Write</h1>
      <p class="lead">
        A text goes in, summaries come out; a language model goes on with the text. Point at a
        written word: the places of the text that it came from are marked.
      </p>
      <RunPicker can={CAN} router={router} none={<NoRun />}>
        {(run) => <Desk key={run} run={run} />}
      </RunPicker>
    </div>
  );
}

function NoRun() {
  return (
    <Empty title="No run can write yet">
      <Examples can={CAN} />
    </Empty>
  );
}

function Desk({ run }: { run: string }) {
  const { info, runs } = useClient();
  const [typed, setTyped] = useKept('write text', '');
  const [way, setWay] = useKept<Way>('write way', GIVEN);
  const [written, setWritten] = useKept<{ of: string; text: string; found: Written } | null>(
    'written',
    null,
  );
  const [pointed, setPointed] = useState<Pointed | null>(null);
  const work = useWork();
  const mine = written?.of === run ? written : null;
  const text = mine?.text ?? typed; // what is shown is what is written about
  const limit = info?.limits.text ?? Infinity;
  const goesOn = runs?.find(({ id }) => id === run)?.can.includes('generate');
  const what = goesOn ? 'Continuations' : 'Summaries';
  const { sent, wrong } = wayOf(way, info?.limits.summaries ?? 8, what);
  const start = (): void => {
    if (!text.trim() || wrong) return;
    setPointed(null);
    setWritten({ of: run, text, found: NOTHING });
    work.run(async (signal) => {
      let found = NOTHING;
      for await (const event of stream('POST /api/write', { body: { run, text, ...sent }, signal })) {
        if (event.name === 'error') throw new Refused(event.data.error, 200);
        found = heard(found, event);
        setWritten({ of: run, text, found });
      }
      if (!found.done) throw new Error('The writing broke off.');
    });
  };
  return (
    <div class="desk">
      <div class="text-side">
        {mine ? (
          <Source
            text={mine.text}
            cutAt={mine.found.cutAt}
            pointed={pointed}
            edit={() => {
              work.stop();
              setTyped(mine.text);
              setWritten(null);
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
        {text.length > limit && (
          <p class="message warn">This studio takes {limit.toLocaleString('en')} characters at most.</p>
        )}
      </div>
      <div class="result-side">
        <Ways way={way} change={setWay} most={info?.limits.summaries ?? 8} what={what} />
        <div class="row">
          <button
            type="button"
            class="main"
            disabled={work.busy || Boolean(wrong) || !text.trim() || text.length > limit}
            onClick={start}
          >
            {mine ? 'Write again' : 'Write'}
          </button>
          {work.busy && (
            <button type="button" onClick={work.stop}>
              Stop
            </button>
          )}
          {wrong && <span class="warn small">{wrong}</span>}
        </div>
        <Failure text={work.failure} />
        {mine && (
          <Summaries
            found={mine.found}
            source={mine.text}
            busy={work.busy}
            {...{ pointed, point: setPointed }}
          />
        )}
      </div>
    </div>
  );
}
