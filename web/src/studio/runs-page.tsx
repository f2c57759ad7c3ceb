// Runs: the list on one side, what is chosen of it on the other.

import { useEffect } from 'preact/hooks';
import { useClient, useKept } from './client';
import { Curves } from './curves';
import { plain } from '../report/prose';
import type { Page } from './page';
import { Busy, Empty, Examples, Failure } from './parts';
import type { Run } from './reading';
import type { Router } from './router';
import { FileLists } from './run-files';
import { RunHead } from './run-head';
import { RunList } from './run-list';
import { Settings } from './run-settings';

export const MOST = 12; // runs at a time: more lines cannot be told apart

const PARTS = { curves: 'Curves', settings: 'Settings', files: 'Checkpoints and files' } as const;
type Part = keyof typeof PARTS;

export const runsPage: Page = { name: 'runs', title: 'Runs', Shown: RunsPage };

function RunsPage({ router }: { router: Router }) {
  const client = useClient();
  const [touched, setTouched] = useKept('runs touched', false);
  const { runs } = client;
  const ids = (router.route.fields.run ?? []).slice(0, MOST);
  useEffect(() => {
    if (!runs?.length || ids.length || touched) return;
    router.fill({ run: [newest(runs).id] });
  }, [runs]);
  useEffect(() => client.watch(ids), [ids.join('\n')]);
  useEffect(() => () => client.watch([]), []);
  if (!runs) return client.failure ? <Failure text={client.failure} /> : <Busy text="Reading the runs…" />;
  if (!runs.length) return <NoRuns folder={client.info?.runs_folder ?? ''} />;
  const choose = (next: string[]): void => {
    setTouched(true);
    router.set({ run: next });
  };
  const chosen = ids.map((id) => runs.find((run) => run.id === id) ?? missing(id));
  return (
    <div class="sides">
      <RunList {...{ runs, ids, choose, router }} gone={chosen.filter(({ state }) => state === 'gone')} />
      <section class="chosen" aria-label="Chosen runs">
        {chosen.length ? <Chosen {...{ chosen, router }} /> : <NoneChosen />}
      </section>
    </div>
  );
}

function newest(runs: Run[]): Run {
  const time = (run: Run): number => (run.state === 'broken' ? -1 : (run.updated ?? 0));
  return runs.reduce((best, run) => (time(run) > time(best) ? run : best));
}

// An address may name a run that is gone.
function missing(id: string): Run {
  const numbers = { created: null, updated: null, step: null, steps: null, minutes: null, parameters: null };
  const words = { name: id, task: null, headline: null, better: null, problem: null, attention: null };
  return { id, state: 'gone', last: {}, can: [], ...numbers, ...words };
}

function Chosen({ chosen, router }: { chosen: Run[]; router: Router }) {
  const part = (Object.keys(PARTS) as Part[]).find((each) => each === router.one('show')) ?? 'curves';
  const press = (event: KeyboardEvent): void => {
    const all = Object.keys(PARTS) as Part[];
    const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!by) return;
    event.preventDefault();
    const next = all[(all.indexOf(part) + by + all.length) % all.length];
    router.set({ show: [next] });
    document.getElementById(`part-${next}`)?.focus();
  };
  return (
    <>
      <RunHead chosen={chosen} />
      <div class="tabs" role="tablist" aria-label="Of these runs" onKeyDown={press}>
        {(Object.keys(PARTS) as Part[]).map((each) => (
          <button
            key={each}
            id={`part-${each}`}
            type="button"
            role="tab"
            aria-selected={each === part}
            aria-controls="part"
            tabIndex={each === part ? 0 : -1}
            onClick={() => router.set({ show: [each] })}
          >
            {PARTS[each]}
          </button>
        ))}
      </div>
      <div id="part" role="tabpanel" aria-labeledby={`part-${part}`}>
        {part === 'curves' && <Curves {...{ chosen, router }} />}
        {part === 'settings' && <Settings chosen={chosen} />}
        {part === 'files' && <FileLists chosen={chosen} />}
      </div>
    </>
  );
}

function NoneChosen() {
  return (
    <Empty title="No run is chosen">
      <p>A name shows one run; boxes that are ticked show several together.</p>
    </Empty>
  );
}

function NoRuns({ folder }: { folder: string }) {
  return (
    <Empty title="No runs yet">
      <p>
        There is no run folder in {folder ? <code>{plain(folder)}</code> : 'the folder of this studio'}.
        Train one, and it appears here while it trains:
      </p>
      <Examples />
    </Empty>
  );
}
