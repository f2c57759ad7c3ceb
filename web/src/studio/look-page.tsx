// Look: a text, a model, and every view of what it attends to.

import { isRecord, text as textOf } from '../report/plot';
import { plain } from '../report/prose';
import { ask } from './api';
import { useClient, useKept } from './client';
import { Busy, Command, Empty, Failure, NumberField, runTitle, useRuns, useWork } from './parts';
import type { Router } from './router';
import { Viewer } from './viewer';

interface Choice {
  key: string; // "run:ID" or "model:ID"
  title: string;
}

export function LookPage({ router }: { router: Router }) {
  const { info, failure } = useClient();
  const runs = useRuns('look');
  if (!runs || !info) return failure ? <Failure text={failure} /> : <Busy text="Reading the runs…" />;
  const choices: Choice[] = [
    ...info.models.map(({ id, name }) => ({ key: `model:${id}`, title: plain(name || id) })),
    ...runs.map((run) => ({ key: `run:${run.id}`, title: runTitle(run) })),
  ];
  return (
    <div class="page">
      <h1>Look</h1>
      <p class="lead">
        Type a text and see what a model attends to while it reads: head by head, layer by layer, or
        two models side by side.
      </p>
      {choices.length ? <Form {...{ choices, router }} /> : <NoModel folder={info.runsFolder} />}
    </div>
  );
}

function NoModel({ folder }: { folder: string }) {
  return (
    <Empty title="There is nothing to look into yet">
      <p>Train a run, or start the studio with the folder of a model, also one of Hugging Face:</p>
      <Command text={`attnlab studio --runs ${plain(folder || 'runs')} --model FOLDER`} />
    </Empty>
  );
}

interface Wish {
  text: string;
  second: string;
  generate: string;
}

const EMPTY: Wish = { text: '', second: '', generate: '0' };

function Form({ choices, router }: { choices: Choice[]; router: Router }) {
  const { info } = useClient();
  const [wish, setWish] = useKept<Wish>('look wish', EMPTY);
  const work = useWork();
  const subject = router.one('subject') || choices[0].key;
  const other = router.one('compare');
  const capture = router.one('capture');
  const most = info?.limits.tokens ?? 256;
  const written = Number(wish.generate);
  const wrong =
    Number.isInteger(written) && written >= 0 && written <= most
      ? ''
      : `Tokens to write: a whole number from 0 to ${most}.`;
  const start = (): void => {
    if (!wish.text.trim() || wrong) return;
    work.run(async (signal) => {
      const json = {
        subject: named(subject),
        text: wish.text,
        ...(wish.second.trim() ? { second: wish.second } : {}),
        ...(written ? { generate: written } : {}),
        ...(other ? { compare: named(other) } : {}),
      };
      const raw = await ask('/api/look', { json, signal });
      const inner = other ? 'view=compare' : undefined;
      router.set({ capture: [isRecord(raw) ? textOf(raw.capture) : ''] }, inner);
    });
  };
  const write = (some: Partial<Wish>): void => setWish((old) => ({ ...old, ...some }));
  return (
    <>
      <form
        class="look-form"
        onSubmit={(event) => {
          event.preventDefault();
          start();
        }}
      >
        <Subject label="Model" {...{ choices, value: subject }} change={(key) => router.set({ subject: [key] })} />
        <Subject
          label="Compare with"
          none="no other"
          choices={choices.filter(({ key }) => key !== subject)}
          value={other}
          change={(key) => router.set({ compare: [key] })}
        />
        <NumberField
          name="Tokens to write on"
          low={0}
          high={most}
          value={wish.generate}
          change={(generate) => write({ generate })}
        />
        <label class="field wide-field text-field">
          <span>Text</span>
          <textarea
            rows={2}
            value={wish.text}
            spellcheck={false}
            placeholder="What the model reads"
            onInput={(event) => write({ text: event.currentTarget.value })}
            onKeyDown={(event) => {
              if (event.key !== 'Enter' || event.shiftKey || event.isComposing) return;
              event.preventDefault();
              start();
            }}
          />
        </label>
        <label class="field wide-field" title="Of an encoder-decoder: what it shall have written">
          <span>
            Second text <span class="dim">may stay empty</span>
          </span>
          <textarea
            rows={2}
            value={wish.second}
            spellcheck={false}
            onInput={(event) => write({ second: event.currentTarget.value })}
          />
        </label>
        <div class="row">
          <button type="submit" class="main" disabled={!wish.text.trim() || work.busy || Boolean(wrong)}>
            Look
          </button>
          {wrong && <span class="warn small">{wrong}</span>}
        </div>
      </form>
      {work.busy && <Busy text="The model reads, and is watched…" />}
      <Failure text={work.failure} />
      {capture && (
        <section class="attention" aria-label="Attention">
          <Viewer capture={capture} router={router} />
        </section>
      )}
    </>
  );
}

// As the server takes it: a run by its id, a model in an object.
function named(key: string): string | { model: string } {
  const rest = key.slice(key.indexOf(':') + 1);
  return key.startsWith('model:') ? { model: rest } : rest;
}

interface SubjectProps {
  label: string;
  choices: Choice[];
  value: string;
  change: (key: string) => void;
  none?: string;
}

function Subject({ label, choices, value, change, none }: SubjectProps) {
  return (
    <label class="field">
      <span>{label}</span>
      <select value={value} onChange={(event) => change(event.currentTarget.value)}>
        {none !== undefined && (
          <option value="" selected={!value}>
            {none}
          </option>
        )}
        {choices.map(({ key, title }) => (
          <option key={key} value={key} selected={key === value}>
            {title}
          </option>
        ))}
      </select>
    </label>
  );
}
