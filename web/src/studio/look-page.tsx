// Look: a text or an image, a model, and every view of what it attends to.

import { useEffect } from 'preact/hooks';
import { plain } from '../report/prose';
import { ask } from './api';
import type { LookResponse } from './api-types';
import { useClient, useKept } from './client';
import { DropZone, problemOf, usePasted } from './drop-zone';
import { Compare, Reads, Subject, TextField, type Choice } from './look-fields';
import { EMPTY, imageQuery, TEXT, textBody, wrongWith, type Wish } from './look-wish';
import type { Page } from './page';
import { Busy, Command, Empty, Failure, NumberField, runTitle, useChoice, useRuns, useWork } from './parts';
import type { Router } from './router';
import { Viewer } from './viewer';

export const lookPage: Page = {
  name: 'look',
  title: 'Look',
  Shown: LookPage,
  invites: { look: 'Look inside' },
  opens: ({ id }) => ({ subject: [`run:${id}`] }),
};

function LookPage({ router }: { router: Router }) {
  const { info, failure } = useClient();
  const runs = useRuns('look');
  if (!runs || !info) return failure ? <Failure text={failure} /> : <Busy text="Reading the runs…" />;
  const choices: Choice[] = [
    ...info.models.map(({ id, name }) => ({
      key: `model:${id}`,
      title: plain(name || id),
      sees: false, // as far as is known before it is opened
    })),
    ...runs.map((run) => ({
      key: `run:${run.id}`,
      title: runTitle(run),
      sees: run.can.includes('classify'),
    })),
  ];
  return (
    <div class="page">
      <h1>Look</h1>
      <p class="lead">
        Give a text or an image and see what a model attends to while it reads: head by head, layer
        by layer, or two side by side.
      </p>
      {choices.length ? <Form {...{ choices, router }} /> : <NoModel />}
    </div>
  );
}

function NoModel() {
  return (
    <Empty title="There is nothing to look into yet">
      <p>Train a run, or start the studio with the folder of a model, also one of Hugging Face:</p>
      <Command words="attnlab studio --model FOLDER --runs" />
    </Empty>
  );
}

function Form({ choices, router }: { choices: Choice[]; router: Router }) {
  const { info } = useClient();
  const [wish, setWish] = useKept<Wish>('look wish', EMPTY);
  const [image, setImage] = useKept<Blob | null>('image', null);
  const work = useWork();
  const subject = useChoice(
    router,
    'subject',
    choices.map(({ key }) => key),
  );
  const chosen = choices.find(({ key }) => key === subject);
  const sees = router.one('reads') ? router.one('reads') === 'image' : Boolean(chosen?.sees);
  const compare = sees && router.one('compare') === TEXT ? '' : router.one('compare');
  useEffect(() => work.stop, [subject, compare]); // an answer of another model is not shown as this one's
  const most = info?.limits.tokens ?? 256;
  const wrong = wrongWith(wish, compare, sees, most);
  const show = (given: Blob | null, asked: (signal: AbortSignal) => Promise<LookResponse>): void => {
    work.run(async (signal) => {
      const { capture } = await asked(signal);
      const inner = compare ? 'view=compare' : given ? 'view=image' : undefined;
      router.set({ capture: [capture] }, inner);
    });
  };
  const start = (): void => {
    if (wrong !== null) return;
    const body = textBody(wish, subject, compare);
    show(null, (signal) => ask('POST /api/look', { body, signal }));
  };
  const see = (file: Blob): void => {
    const problem = problemOf(file, info?.limits.image_bytes ?? Infinity);
    if (problem) return work.run(() => Promise.reject(new Error(problem)));
    setImage(file);
    const query = imageQuery(wish, subject, compare);
    show(file, (signal) => ask('POST /api/look/image', { query, image: file, signal }));
  };
  usePasted((file) => sees && see(file));
  const ready = sees ? image !== null : wrong === null;
  return (
    <>
      <form
        class="look-form"
        onSubmit={(event) => {
          event.preventDefault();
          if (!sees) start();
          else if (image) see(image);
        }}
      >
        <Subject
          {...{ choices, value: subject }}
          change={(key) => router.set({ subject: [key], reads: [], capture: [] }, '')}
        />
        <Compare
          choices={choices.filter(({ key }) => key !== subject)}
          value={compare}
          change={(key) => router.set({ compare: [key] })}
          texts={!sees}
        />
        <div class="row reads">
          <Reads image={sees} change={(on) => router.set({ reads: [on ? 'image' : 'text'] })} />
          <label class="tick" title="For the view “Neurons”; the capture is larger">
            <input
              type="checkbox"
              checked={wish.neurons}
              onChange={(event) => setWish((old) => ({ ...old, neurons: event.currentTarget.checked }))}
            />
            Queries, keys and values too
          </label>
        </div>
        {sees ? (
          <div class="whole">
            <DropZone image={image} take={see} />
          </div>
        ) : (
          <Texts {...{ wish, setWish, most, start }} compare={compare === TEXT} />
        )}
        <div class="row whole">
          <button type="submit" class="main" disabled={!ready || work.busy}>
            Look
          </button>
          {wrong && <span class="warn small">{wrong}</span>}
        </div>
      </form>
      {work.busy && <Busy text="The model reads, and is watched…" />}
      <Failure text={work.failure} />
      <Shown router={router} />
    </>
  );
}

interface TextsProps {
  wish: Wish;
  setWish: (next: (old: Wish) => Wish) => void;
  most: number;
  compare: boolean;
  start: () => void;
}

function Texts({ wish, setWish, most, compare, start }: TextsProps) {
  const write = (some: Partial<Wish>): void => setWish((old) => ({ ...old, ...some }));
  return (
    <>
      <TextField
        name="Text"
        look="text-field"
        placeholder="What the model reads"
        value={wish.text}
        change={(text) => write({ text })}
        enter={start}
      />
      <NumberField
        name="Tokens to write on"
        low={0}
        high={most}
        value={wish.generate}
        change={(generate) => write({ generate })}
      />
      {compare && (
        <TextField
          name="The other text"
          look="text-field"
          value={wish.other}
          change={(other) => write({ other })}
          enter={start}
        />
      )}
      <TextField
        name="Second text"
        note="may stay empty"
        look="text-field"
        title="Of an encoder-decoder: what it shall have written; of an encoder: read behind the first"
        value={wish.second}
        change={(second) => write({ second })}
      />
    </>
  );
}

function Shown({ router }: { router: Router }) {
  const capture = router.one('capture');
  return capture ? (
    <section class="attention" aria-label="Attention">
      <Viewer capture={capture} router={router} />
    </section>
  ) : null;
}
