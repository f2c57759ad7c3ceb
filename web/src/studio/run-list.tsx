// The list of runs, with search, order and a checkbox for each run.

import { useEffect, useRef } from 'preact/hooks';
import { seriesColor } from '../report/plot-colors';
import { plainText } from '../report/text-format';
import { formatAge, formatCount, formatMetric } from './format';
import { searchRuns, sortRuns, ORDERS, type Order } from './run-list-data';
import { linkTo } from './route-format';
import { lastValue, type Run } from './api-helpers';
import type { Router } from './router';
import { MAX_SELECTED } from './runs-page';

interface Props {
  runs: Run[];
  gone: Run[]; // deleted runs that are still selected
  ids: string[];
  select: (ids: string[]) => void;
  router: Router;
}

export function RunList({ runs, gone, ids, select, router }: Props) {
  const search = useRef<HTMLInputElement>(null);
  const text = router.one('text');
  const order = (Object.keys(ORDERS) as Order[]).find((name) => name === router.one('order')) ?? 'updated';
  const shown = sortRuns(searchRuns(runs, text), order);
  useEffect(() => {
    const press = (event: KeyboardEvent): void => {
      const [target] = event.composedPath();
      const typing = target instanceof HTMLElement && /INPUT|SELECT|TEXTAREA/.test(target.tagName);
      if (event.key !== '/' || typing || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      search.current?.focus();
    };
    document.addEventListener('keydown', press);
    return () => document.removeEventListener('keydown', press);
  }, []);
  return (
    <aside class="runs" aria-label="Runs">
      <h1>Runs</h1>
      <div class="filters" role="search">
        <input
          ref={search}
          type="search"
          aria-label="Search runs"
          placeholder="Search  /"
          value={text}
          onInput={(event) => router.set({ text: [event.currentTarget.value.slice(0, 200)] })}
        />
        <select
          aria-label="Order"
          value={order}
          onChange={(event) => router.set({ order: [event.currentTarget.value] })}
        >
          {Object.entries(ORDERS).map(([key, name]) => (
            <option key={key} value={key} selected={key === order}>
              {name}
            </option>
          ))}
        </select>
      </div>
      <p class="dim small" role="status">
        {shown.length === runs.length ? `${runs.length} runs` : `${shown.length} of ${runs.length} runs`}
        {ids.length > 1 && `, ${ids.length} compared`}
        {ids.length > 0 && (
          <button type="button" class="plainly clear" onClick={() => select([])}>
            Clear selection
          </button>
        )}
      </p>
      <ul>
        {[...gone, ...shown].map((run) => (
          <Row key={run.id} {...{ run, ids, select }} keep={router.route.fields} />
        ))}
      </ul>
      {!shown.length && <p class="dim">No run matches the search.</p>}
    </aside>
  );
}

interface RowProps {
  run: Run;
  ids: string[];
  select: (ids: string[]) => void;
  keep: Record<string, string[]>;
}

function Row({ run, ids, select, keep }: RowProps) {
  const index = ids.indexOf(run.id);
  const on = index >= 0;
  const toggle = (): void => select(on ? ids.filter((id) => id !== run.id) : [...ids, run.id]);
  return (
    <li class={on ? 'run on' : 'run'} data-run={run.id}>
      <input
        type="checkbox"
        aria-label={`Compare ${plainText(run.name)}`}
        title={on ? 'Remove from the comparison' : 'Add to the comparison'}
        checked={on}
        disabled={!on && ids.length >= MAX_SELECTED}
        style={on ? { accentColor: seriesColor(index) } : undefined}
        onChange={toggle}
      />
      <div>
        <div class="first-line">
          <a
            class="name"
            href={linkTo('runs', { ...keep, run: [run.id] })}
            aria-current={on && ids.length === 1 ? 'true' : undefined}
          >
            <RunName run={run} />
          </a>
          <span class="dim small">{formatAge(run.updated)}</span>
        </div>
        <p class="dim small">{describeRun(run)}</p>
        <RunProgress run={run} />
      </div>
    </li>
  );
}

// Shows the parent folders less prominently than the name.
export function RunName({ run }: { run: Run }) {
  const start = run.id.lastIndexOf('/') + 1;
  return (
    <bdi>
      {start > 0 && <span class="folder">{plainText(run.id.slice(0, start))}</span>}
      {plainText(run.name)}
    </bdi>
  );
}

function describeRun(run: Run): string {
  if (run.state === 'gone') return 'This run no longer exists.';
  if (run.state === 'broken') return plainText(`cannot be read: ${run.problem || 'broken'}`);
  const size = run.parameters === null ? '' : `${formatCount(run.parameters)} parameters`;
  return plainText([run.task, run.attention, size].filter(Boolean).join(' · '));
}

export function RunStateLabel({ run }: { run: Run }) {
  return (
    <span class="state" data-state={run.state}>
      {run.state}
    </span>
  );
}

export function RunProgress({ run }: { run: Run }) {
  const progress = progressOf(run);
  const main = headline(run);
  const loss = lastValue(run, 'loss');
  const diverged = loss !== null && !Number.isFinite(loss);
  return (
    <div class="small">
      {progress !== null && (run.state === 'training' || run.state === 'stopped') && (
        <progress max={1} value={progress} aria-label={`Progress of ${plainText(run.name)}`} />
      )}
      <span class="facts">
        <RunStateLabel run={run} />
        {run.state !== 'broken' && run.step !== null && (
          <span class="number dim">
            {formatCount(run.step)}
            {run.steps !== null && run.steps !== run.step && !run.minutes && ` of ${formatCount(run.steps)}`} steps
          </span>
        )}
        {main && (
          <span class="number">
            {plainText(main[0])} {formatMetric(main[1])}
          </span>
        )}
        {diverged && main?.[0] !== 'loss' && <span class="number warn">loss {formatMetric(loss)}</span>}
      </span>
    </div>
  );
}

// The finished fraction of the steps, or of the time limit.
export function progressOf(run: Run): number | null {
  const { step, steps, minutes } = run;
  const seconds = lastValue(run, 'seconds');
  if (minutes) return seconds === null ? null : Math.min(1, seconds / (60 * minutes));
  return step !== null && steps ? Math.min(1, step / steps) : null;
}

// The main metric on held-out data if there is one, else the loss.
export function headline(run: Run): [string, number] | undefined {
  const names = [`validation ${run.headline}`, 'loss', ...Object.keys(run.last)];
  const name = names.find((candidate) => Object.hasOwn(run.last, candidate));
  return name === undefined ? undefined : [name, lastValue(run, name) ?? NaN];
}
