// See: an image, what a model takes it for, and where it looked.

import { useEffect, useState } from 'preact/hooks';
import { Figure } from '../report/figure';
import { plain } from '../report/prose';
import { AS_GIVEN, type Shown } from '../report/shown';
import { ask } from './api';
import type { SeeResponse } from './api-types';
import { useClient, useKept } from './client';
import { DropZone, problemOf, usePasted } from './drop-zone';
import { percent } from './format';
import type { Page } from './page';
import { Busy, Empty, Examples, Failure, RunPicker, useWork } from './parts';
import type { Router } from './router';
import { Viewer } from './viewer';

const BARS = 10;

export const seePage: Page = {
  name: 'see',
  title: 'See',
  Shown: SeePage,
  invites: { classify: 'Show it an image' },
};

function SeePage({ router }: { router: Router }) {
  return (
    <div class="page">
      <h1>See</h1>
      <p class="lead">
        An image, what the model takes it for, and which patches it attended to. The image stays on
        this computer.
      </p>
      <RunPicker can={['classify']} router={router} none={<NoRun />}>
        {(run) => <Seeing run={run} router={router} />}
      </RunPicker>
    </div>
  );
}

function NoRun() {
  return (
    <Empty title="No run can see yet">
      <Examples can={['classify']} />
    </Empty>
  );
}

interface Shot {
  run: string;
  seen: SeeResponse;
}

function Seeing({ run, router }: { run: string; router: Router }) {
  const { info } = useClient();
  const [image, setImage] = useKept<Blob | null>('image', null);
  const [shot, setShot] = useKept<Shot | null>('seen', null);
  const [wrong, setWrong] = useState('');
  const work = useWork();
  const found = shot?.run === run ? shot.seen : null;
  const limit = info?.limits.image_bytes ?? Infinity;
  const look = (file: Blob): void => {
    const problem = problemOf(file, limit);
    setWrong(problem);
    if (problem) return;
    setImage(file);
    setShot(null);
    work.run(async (signal) => {
      const seen = await ask('POST /api/see', { query: { run }, image: file, signal });
      router.set({}, 'view=image');
      setShot({ run, seen });
    });
  };
  usePasted(look);
  useEffect(() => {
    if (image && !found) look(image); // another model sees the same, as does one that was left
  }, [run]);
  return (
    <>
      <div class="seeing">
        <DropZone image={image} take={look} />
        <div>
          {work.busy && <Busy text="The model looks…" />}
          <Failure text={wrong || work.failure} />
          {found && <Predicted seen={found} />}
        </div>
      </div>
      {found && !found.capture && (
        <p class="dim">This model has no attention, so there is none to show.</p>
      )}
      {found?.capture && (
        <section class="attention" aria-label="Attention">
          <Viewer capture={found.capture} router={router} />
        </section>
      )}
    </>
  );
}

function Predicted({ seen }: { seen: SeeResponse }) {
  const [shown, setShown] = useState<Shown>(AS_GIVEN);
  const best = seen.probabilities.find((each) => each.label === seen.label) ?? seen.probabilities[0];
  const values = seen.probabilities
    .slice(0, BARS)
    .map(({ label, probability }) => ({ name: label, value: probability, low: null, high: null }));
  return (
    <>
      <p class="saying" role="status">
        <bdi>{plain(seen.label)}</bdi>
        {best && <span class="dim"> {percent(best.probability)}</span>}
      </p>
      <div class="prediction">
        <Figure
          plot={{ kind: 'bars', y: 'probability', values, marks: [], literal: true }}
          title="What it takes the image for"
          shown={shown}
          change={setShown}
        />
      </div>
    </>
  );
}
