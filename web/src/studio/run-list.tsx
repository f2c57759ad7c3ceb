// The list: search, order, and a box for each run.

import { useEffect, useRef } from 'preact/hooks';
import { colorOf } from '../report/paint';
import { plain } from '../report/prose';
import { ago, count, metric } from './format';
import { found, ordered, ORDERS, type Order } from './list';
import { linkTo } from './routes';
import { lastOf, type Run } from './reading';
import type { Router } from './router';
import { MOST } from './runs-page';

interface Props {
  runs: Run[];
  gone: Run[]; // that are chosen all the same, and can be left out
  ids: string[];
  choose: (ids: string[]) => void;
  router: Router;
}

export function RunList({ runs, gone, ids, choose, router }: Props) {
  const search = useRef<HTMLInputElement>(null);
  const text = router.one('text');
  const order = (Object.keys(ORDERS) as Order[]).find((each) => each === router.one('order')) ?? 'updated';
  const shown = ordered(found(runs, text), order);
  useEffect(() => {
    const press = (event: KeyboardEvent): void => {
      const [at] = event.composedPath();
      const typing = at instanceof HTMLElement && /INPUT|SELECT|TEXTAREA/.test(at.tagName);
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
          {Object.entries(ORDERS).map(([each, name]) => (
            <option key={each} value={each} selected={each === order}>
              {name}
            </option>
          ))}
        </select>
      </div>
      <p class="dim small" role="status">
        {shown.length === runs.length ? `${runs.length} runs` : `${shown.length} of ${runs.length} runs`}
        {ids.length > 1 && `, ${ids.length} compared`}
        {ids.length > 0 && (
          <button type="button" class="plainly clear" onClick={() => choose([])}>
            Choose none
          </button>
        )}
      </p>
      <ul>
        {[...gone, ...shown].map((run) => (
          <Row key={run.id} {...{ run, ids, choose }} keep={router.route.fields} />
        ))}
      </ul>
      {!shown.length && <p class="dim">No run is like that.</p>}
    </aside>
  );
}

interface RowProps {
  run: Run;
  ids: string[];
  choose: (ids: string[]) => void;
  keep: Record<string, string[]>;
}

function Row({ run, ids, choose, keep }: RowProps) {
  const at = ids.indexOf(run.id);
  const on = at >= 0;
  const toggle = (): void => choose(on ? ids.filter((id) => id !== run.id) : [...ids, run.id]);
  return (
    <li class={on ? 'run on' : 'run'} data-run={run.id}>
      <input
        type="checkbox"
        aria-label={`Compare ${plain(run.name)}`}
        title={on ? 'Leave out' : 'Add to the comparison'}
        checked={on}
        disabled={!on && ids.length >= MOST}
        style={on ? { accentColor: colorOf(at) } : undefined}
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
          <span class="dim small">{ago(run.updated)}</span>
        </div>
        <p class="dim small">{facts(run)}</p>
        <Progress run={run} />
      </div>
    </li>
  );
}

// The folders that it lies in are less important than its own name.
export function RunName({ run }: { run: Run }) {
  const at = run.id.lastIndexOf('/') + 1;
  return (
    <bdi>
      {at > 0 && <span class="folder">{plain(run.id.slice(0, at))}</span>}
      {plain(run.name)}
    </bdi>
  );
}

function facts(run: Run): string {
  if (run.state === 'gone') return 'There is no such run any more.';
  if (run.state === 'broken') return plain(`cannot be read: ${run.problem || 'broken'}`);
  const size = run.parameters === null ? '' : `${count(run.parameters)} parameters`;
  return plain([run.task, run.attention, size].filter(Boolean).join(' · '));
}

export function StateName({ run }: { run: Run }) {
  return (
    <span class="state" data-state={run.state}>
      {run.state}
    </span>
  );
}

export function Progress({ run }: { run: Run }) {
  const share = shareOf(run);
  const main = headline(run);
  const loss = lastOf(run, 'loss');
  const lost = loss !== null && !Number.isFinite(loss);
  return (
    <div class="small">
      {share !== null && (run.state === 'training' || run.state === 'stopped') && (
        <progress max={1} value={share} aria-label={`Progress of ${plain(run.name)}`} />
      )}
      <span class="facts">
        <StateName run={run} />
        {run.state !== 'broken' && run.step !== null && (
          <span class="number dim">
            {count(run.step)}
            {run.steps !== null && run.steps !== run.step && !run.minutes && ` of ${count(run.steps)}`} steps
          </span>
        )}
        {main && (
          <span class="number">
            {plain(main[0])} {metric(main[1])}
          </span>
        )}
        {lost && main?.[0] !== 'loss' && <span class="number warn">loss {metric(loss)}</span>}
      </span>
    </div>
  );
}

// Of its steps, or of the minutes that it may take.
export function shareOf(run: Run): number | null {
  const { step, steps, minutes } = run;
  const seconds = lastOf(run, 'seconds');
  if (minutes) return seconds === null ? null : Math.min(1, seconds / (60 * minutes));
  return step !== null && steps ? Math.min(1, step / steps) : null;
}

// The measure on held-out data where there is one, else the loss.
export function headline(run: Run): [string, number] | undefined {
  const names = [`validation ${run.headline}`, 'loss', ...Object.keys(run.last)];
  const name = names.find((each) => Object.hasOwn(run.last, each));
  return name === undefined ? undefined : [name, lastOf(run, name) ?? NaN];
}
