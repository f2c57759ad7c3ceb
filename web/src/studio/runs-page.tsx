// Runs: the list, and beside it the selected runs.

import { useEffect } from 'preact/hooks';
import { useWindowState, useRemembered } from './window-state';
import { Curves } from './curves';
import { plainText } from '../report/text-format';
import type { Page } from './page-declaration';
import { BusyMessage, EmptyPage, Examples, Failure } from './components';
import type { Run } from './api-helpers';
import type { Router } from './router';
import { FileLists } from './run-files';
import { RunHeader } from './run-header';
import { RunList } from './run-list';
import { Settings } from './run-settings';

export const MAX_SELECTED = 12; // runs: more lines cannot be distinguished

const TABS = { curves: 'Curves', settings: 'Settings', files: 'Checkpoints and files' } as const;
type Tab = keyof typeof TABS;

export const runsPage: Page = { name: 'runs', title: 'Runs', Component: RunsPage };

function RunsPage({ router }: { router: Router }) {
  const windowState = useWindowState();
  const [everSelected, setEverSelected] = useRemembered('runs selected', false);
  const { runs } = windowState;
  const ids = (router.route.fields.run ?? []).slice(0, MAX_SELECTED);
  useEffect(() => {
    if (!runs?.length || ids.length || everSelected) return;
    router.fill({ run: [newest(runs).id] });
  }, [runs]);
  useEffect(() => windowState.watch(ids), [ids.join('\n')]);
  useEffect(() => () => windowState.watch([]), []);
  if (!runs) return windowState.failure ? <Failure text={windowState.failure} /> : <BusyMessage text="Reading the runs…" />;
  if (!runs.length) return <NoRuns folder={windowState.info?.runs_folder ?? ''} />;
  const select = (next: string[]): void => {
    setEverSelected(true);
    router.set({ run: next });
  };
  const selected = ids.map((id) => runs.find((run) => run.id === id) ?? deletedRun(id));
  return (
    <div class="list-and-details">
      <RunList {...{ runs, ids, select, router }} gone={selected.filter(({ state }) => state === 'gone')} />
      <section class="chosen" aria-label="Selected runs">
        {selected.length ? <SelectedRuns {...{ selected, router }} /> : <NoSelection />}
      </section>
    </div>
  );
}

function newest(runs: Run[]): Run {
  const time = (run: Run): number => (run.state === 'broken' ? -1 : (run.updated ?? 0));
  return runs.reduce((best, run) => (time(run) > time(best) ? run : best));
}

// An address may name a deleted run.
function deletedRun(id: string): Run {
  const numbers = { created: null, updated: null, step: null, steps: null, minutes: null, parameters: null };
  const words = { name: id, task: null, headline: null, better: null, problem: null, attention: null };
  return { id, state: 'gone', last: {}, can: [], ...numbers, ...words };
}

function SelectedRuns({ selected, router }: { selected: Run[]; router: Router }) {
  const tab = (Object.keys(TABS) as Tab[]).find((name) => name === router.one('show')) ?? 'curves';
  const press = (event: KeyboardEvent): void => {
    const names = Object.keys(TABS) as Tab[];
    const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!by) return;
    event.preventDefault();
    const next = names[(names.indexOf(tab) + by + names.length) % names.length];
    router.set({ show: [next] });
    document.getElementById(`part-${next}`)?.focus();
  };
  return (
    <>
      <RunHeader selected={selected} />
      <div class="tabs" role="tablist" aria-label="Selected runs" onKeyDown={press}>
        {(Object.keys(TABS) as Tab[]).map((name) => (
          <button
            key={name}
            id={`part-${name}`}
            type="button"
            role="tab"
            aria-selected={name === tab}
            aria-controls="part"
            tabIndex={name === tab ? 0 : -1}
            onClick={() => router.set({ show: [name] })}
          >
            {TABS[name]}
          </button>
        ))}
      </div>
      <div id="part" role="tabpanel" aria-labelledby={`part-${tab}`}>
        {tab === 'curves' && <Curves {...{ selected, router }} />}
        {tab === 'settings' && <Settings selected={selected} />}
        {tab === 'files' && <FileLists selected={selected} />}
      </div>
    </>
  );
}

function NoSelection() {
  return (
    <EmptyPage title="No run is selected">
      <p>Click a name to show one run, or check several boxes to compare runs.</p>
    </EmptyPage>
  );
}

function NoRuns({ folder }: { folder: string }) {
  return (
    <EmptyPage title="No runs yet">
      <p>
        There are no runs in {folder ? <code>{plainText(folder)}</code> : 'the runs folder of this studio'}.
        Train one, and it appears here during training:
      </p>
      <Examples />
    </EmptyPage>
  );
}
