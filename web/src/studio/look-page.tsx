// Look: a text or an image, a model, and every view of what it attends to.

import { useEffect } from 'preact/hooks';
import { plainText } from '../report/text-format';
import { request } from './api';
import type { LookResponse } from './api-types';
import { useWindowState, useRemembered } from './window-state';
import { DropZone, imageProblem, usePastedImage } from './drop-zone';
import { CompareSelect, InputKindSwitch, ModelSelect, TextField, type ModelChoice } from './look-fields';
import { DEFAULT_LOOK_OPTIONS, lookImageQuery, OTHER_TEXT, lookRequestBody, findProblem, type LookOptions } from './look-request';
import type { Page } from './page-declaration';
import { ExampleChips, PAIRS, SENTENCES } from './example-chips';
import { ExampleImages } from './example-images';
import { BusyMessage, Command, EmptyPage, Failure, NumberField, runTitle, useChoice, useRuns, useTask } from './components';
import type { Router } from './router';
import { CaptureViewer } from './capture-viewer';

export const lookPage: Page = {
  name: 'look',
  title: 'Look',
  Component: LookPage,
  links: { look: 'Look inside' },
  addressFields: ({ id }) => ({ subject: [`run:${id}`] }),
};

function LookPage({ router }: { router: Router }) {
  const { info, failure } = useWindowState();
  const runs = useRuns('look');
  if (!runs || !info) return failure ? <Failure text={failure} /> : <BusyMessage text="Reading the runs…" />;
  const choices: ModelChoice[] = [
    ...info.models.map(({ id, name }) => ({
      key: `model:${id}`,
      title: plainText(name || id),
      readsImages: false, // unknown before the model is loaded
    })),
    ...runs.map((run) => ({
      key: `run:${run.id}`,
      title: runTitle(run),
      readsImages: run.can.includes('classify'),
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
    <EmptyPage title="There is no model to look into yet">
      <p>Train a run, or start the studio with the folder of a model, for example from Hugging Face:</p>
      <Command words="attnlab studio --model FOLDER --runs" />
    </EmptyPage>
  );
}

function Form({ choices, router }: { choices: ModelChoice[]; router: Router }) {
  const { info } = useWindowState();
  const [options, setOptions] = useRemembered<LookOptions>('look options', DEFAULT_LOOK_OPTIONS);
  const [image, setImage] = useRemembered<Blob | null>('image', null);
  const work = useTask();
  const modelKey = useChoice(
    router,
    'subject',
    choices.map(({ key }) => key),
  );
  const selected = choices.find(({ key }) => key === modelKey);
  const readsImages = router.one('reads') ? router.one('reads') === 'image' : Boolean(selected?.readsImages);
  const compare = readsImages && router.one('compare') === OTHER_TEXT ? '' : router.one('compare');
  useEffect(() => work.stop, [modelKey, compare]); // ignore a late result of another model
  const maxTokens = info?.limits.tokens ?? 256;
  const problem = findProblem(options, compare, readsImages, maxTokens);
  const show = (image: Blob | null, look: (signal: AbortSignal) => Promise<LookResponse>): void => {
    work.run(async (signal) => {
      const { capture } = await look(signal);
      const inner = compare ? 'view=compare' : image ? 'view=image' : undefined;
      router.set({ capture: [capture] }, inner);
    });
  };
  const lookAtText = (): void => {
    if (problem !== null) return;
    const body = lookRequestBody(options, modelKey, compare);
    show(null, (signal) => request('POST /api/look', { body, signal }));
  };
  const lookAtImage = (file: Blob): void => {
    const fileProblem = imageProblem(file, info?.limits.image_bytes ?? Infinity);
    if (fileProblem) return work.run(() => Promise.reject(new Error(fileProblem)));
    setImage(file);
    const query = lookImageQuery(options, modelKey, compare);
    show(file, (signal) => request('POST /api/look/image', { query, image: file, signal }));
  };
  usePastedImage((file) => readsImages && lookAtImage(file));
  const ready = readsImages ? image !== null : problem === null;
  return (
    <>
      <form
        class="look-form"
        onSubmit={(event) => {
          event.preventDefault();
          if (!readsImages) lookAtText();
          else if (image) lookAtImage(image);
        }}
      >
        <ModelSelect
          {...{ choices, value: modelKey }}
          change={(key) => router.set({ subject: [key], reads: [], capture: [] }, '')}
        />
        <CompareSelect
          choices={choices.filter(({ key }) => key !== modelKey)}
          value={compare}
          change={(key) => router.set({ compare: [key] })}
          texts={!readsImages}
        />
        <div class="row reads">
          <InputKindSwitch image={readsImages} change={(on) => router.set({ reads: [on ? 'image' : 'text'] })} />
          <label class="tick" title="Needed for the view “Neurons”; makes the capture larger">
            <input
              type="checkbox"
              checked={options.neurons}
              onChange={(event) => setOptions((old) => ({ ...old, neurons: event.currentTarget.checked }))}
            />
            Queries, keys and values too
          </label>
          <label class="tick" title="Needed for the view “Effect”: runs the model once without each head">
            <input
              type="checkbox"
              checked={options.effects}
              onChange={(event) => setOptions((old) => ({ ...old, effects: event.currentTarget.checked }))}
            />
            Effects of heads
          </label>
        </div>
        {readsImages ? (
          <div class="whole">
            <DropZone image={image} take={lookAtImage} />
          </div>
        ) : (
          <TextFields {...{ options, setOptions, maxTokens }} start={lookAtText} compare={compare === OTHER_TEXT} />
        )}
        {!readsImages && compare === OTHER_TEXT ? (
          <div class="whole">
            <ExampleChips
              examples={PAIRS.map(([one, other]) => ({ kind: 'two texts', text: `${one} / ${other}`, answer: null }))}
              take={(both) => {
                const [text, otherText] = both.split(' / ');
                setOptions((old) => ({ ...old, text, otherText }));
              }}
            />
          </div>
        ) : !readsImages && (
          <div class="whole">
            <ExampleChips examples={SENTENCES} take={(text) => setOptions((old) => ({ ...old, text }))} />
          </div>
        )}
        {readsImages && modelKey.startsWith('run:') && (
          <div class="whole">
            <ExampleImages run={modelKey.slice(4)} disabled={work.busy} take={lookAtImage} />
          </div>
        )}
        <div class="row whole">
          <button type="submit" class="main" disabled={!ready || work.busy}>
            Look
          </button>
          {problem && <span class="warn small">{problem}</span>}
        </div>
      </form>
      {work.busy && <BusyMessage text="The model reads the input…" />}
      <Failure text={work.failure} />
      <ShownCapture router={router} />
    </>
  );
}

interface TextFieldsProps {
  options: LookOptions;
  setOptions: (next: (old: LookOptions) => LookOptions) => void;
  maxTokens: number;
  compare: boolean;
  start: () => void;
}

function TextFields({ options, setOptions, maxTokens, compare, start }: TextFieldsProps) {
  const update = (some: Partial<LookOptions>): void => setOptions((old) => ({ ...old, ...some }));
  return (
    <>
      <TextField
        name="Text"
        look="text-field"
        placeholder="What the model reads"
        value={options.text}
        change={(text) => update({ text })}
        onEnter={start}
      />
      <NumberField
        name="Tokens to write on"
        low={0}
        high={maxTokens}
        value={options.generate}
        change={(generate) => update({ generate })}
      />
      {compare && (
        <TextField
          name="The other text"
          look="text-field"
          value={options.otherText}
          change={(otherText) => update({ otherText })}
          onEnter={start}
        />
      )}
      <TextField
        name="Second text"
        note="optional"
        look="text-field"
        title="For an encoder-decoder, the text that it generates; for an encoder, the second segment of its input"
        value={options.second}
        change={(second) => update({ second })}
      />
    </>
  );
}

function ShownCapture({ router }: { router: Router }) {
  const capture = router.one('capture');
  return capture ? (
    <section class="attention" aria-label="Attention">
      <CaptureViewer capture={capture} router={router} />
    </section>
  ) : null;
}
