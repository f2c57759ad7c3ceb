// See: classifies an image and shows the attention of the model.

import { useEffect, useState } from 'preact/hooks';
import { Figure } from '../report/figure';
import { plainText } from '../report/text-format';
import { DEFAULT_FIGURE_OPTIONS, type FigureOptions } from '../report/figure-options';
import { request } from './api';
import type { SeeResponse } from './api-types';
import { useWindowState, useRemembered } from './window-state';
import { DropZone, imageProblem, usePastedImage } from './drop-zone';
import { formatPercent } from './format';
import type { Page } from './page-declaration';
import { ExampleImages } from './example-images';
import { BusyMessage, EmptyPage, Examples, Failure, RunPicker, useTask } from './components';
import type { Router } from './router';
import { CaptureViewer } from './capture-viewer';

const MAX_BARS = 10;

export const seePage: Page = {
  name: 'see',
  title: 'See',
  Component: SeePage,
  links: { classify: 'Show it an image' },
};

function SeePage({ router }: { router: Router }) {
  return (
    <div class="page">
      <h1>See</h1>
      <p class="lead">
        Give an image to see how the model classifies it, and which patches it attends to. The image
        stays on this computer.
      </p>
      <RunPicker can={['classify']} router={router} none={<NoRun />}>
        {(run) => <ClassifyForm run={run} router={router} />}
      </RunPicker>
    </div>
  );
}

function NoRun() {
  return (
    <EmptyPage title="No run can classify images yet">
      <Examples can={['classify']} />
    </EmptyPage>
  );
}

interface Classification {
  run: string;
  result: SeeResponse;
}

function ClassifyForm({ run, router }: { run: string; router: Router }) {
  const { info } = useWindowState();
  const [image, setImage] = useRemembered<Blob | null>('image', null);
  const [classification, setClassification] = useRemembered<Classification | null>('classification', null);
  const [problem, setProblem] = useState('');
  const work = useTask();
  const result = classification?.run === run ? classification.result : null;
  const limit = info?.limits.image_bytes ?? Infinity;
  const classify = (file: Blob): void => {
    const fileProblem = imageProblem(file, limit);
    setProblem(fileProblem);
    if (fileProblem) return;
    setImage(file);
    setClassification(null);
    work.run(async (signal) => {
      const result = await request('POST /api/see', { query: { run }, image: file, signal });
      router.set({}, 'view=image');
      setClassification({ run, result });
    });
  };
  usePastedImage(classify);
  useEffect(() => {
    if (image && !result) classify(image); // the new run classifies the same image
  }, [run]);
  return (
    <>
      <div class="seeing">
        <div class="stack">
          <DropZone image={image} take={classify} />
          <ExampleImages run={run} disabled={work.busy} take={classify} />
        </div>
        <div>
          {work.busy && <BusyMessage text="The model classifies the image…" />}
          <Failure text={problem || work.failure} />
          {result && <Prediction result={result} />}
        </div>
      </div>
      {result && !result.capture && (
        <p class="dim">This model has no attention, so there is no attention to show.</p>
      )}
      {result?.capture && (
        <section class="attention" aria-label="Attention">
          <CaptureViewer capture={result.capture} router={router} />
        </section>
      )}
    </>
  );
}

function Prediction({ result }: { result: SeeResponse }) {
  const [options, setOptions] = useState<FigureOptions>(DEFAULT_FIGURE_OPTIONS);
  const best = result.probabilities.find(({ label }) => label === result.label) ?? result.probabilities[0];
  const values = result.probabilities
    .slice(0, MAX_BARS)
    .map(({ label, probability }) => ({ name: label, value: probability, low: null, high: null }));
  return (
    <>
      <p class="saying" role="status">
        <bdi>{plainText(result.label)}</bdi>
        {best && <span class="dim"> {formatPercent(best.probability)}</span>}
        {result.known_label !== null && <KnownLabel result={result} />}
      </p>
      <div class="prediction">
        <Figure
          plot={{ kind: 'bars', y: 'probability', values, marks: [], literal: true, percent: true }}
          title="Predicted classes"
          options={options}
          change={setOptions}
        />
      </div>
    </>
  );
}

// What the data say about the image: a prediction that is wrong must not look like an answer.
function KnownLabel({ result }: { result: SeeResponse }) {
  const isRight = result.known_label === result.label;
  return (
    <span class={isRight ? 'known-label right' : 'known-label wrong'}>
      {isRight ? '✓ as its label says' : <>✗ its label is <bdi>{plainText(result.known_label ?? '')}</bdi></>}
    </span>
  );
}
