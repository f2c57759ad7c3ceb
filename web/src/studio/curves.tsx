// The curves of all chosen runs, a figure for each metric, live.

import { useMemo } from 'preact/hooks';
import { Figure } from '../report/figure';
import type { Lines } from '../report/plot';
import { AS_GIVEN, parseShown, printShown, type Shown } from '../report/shown';
import { useClient } from './client';
import { AXES, metricNames, type Axis, type Curves as Columns } from './metrics';
import { Busy } from './parts';
import type { Run } from './reading';
import type { Router } from './router';
import { lineOf } from './series';

const AXIS_NAMES: Record<Axis, string> = {
  step: 'step',
  seconds: 'seconds of training',
  tokens: 'tokens read',
};
const COLUMNS = 700; // of pixels
const MOST_SMOOTH = 0.99;

export function Curves({ chosen, router }: { chosen: Run[]; router: Router }) {
  const client = useClient();
  const axis = AXES.find((each) => each === router.one('axis')) ?? 'step';
  const smoothing = Math.min(MOST_SMOOTH, Math.max(0, Number(router.one('smooth')) || 0));
  const columns = chosen.map((run) => client.metrics.of(run.id));
  const names = metricNames(columns);
  const figures = shownFigures(router.route.fields.figure ?? []);
  const change = (name: string, shown: Shown): void => {
    // a run that is hidden in one figure is hidden in all
    const all = new Map([...figures].map(([each, old]) => [each, { ...old, hidden: [] }]));
    all.set(name, { ...shown, hidden: [] });
    const told = [...all].map(([each, how]) => [each, printShown(how)]).filter(([, how]) => how);
    router.set({
      figure: told.map(([each, how]) => `${how} ${each}`),
      hide: shown.hidden.map((at) => chosen[at]?.id ?? ''),
    });
  };
  const off = router.route.fields.hide ?? [];
  const hidden = chosen.flatMap((run, i) => (off.includes(run.id) ? [i] : []));
  const draw = (name: string) => (
    <Metric
      key={name}
      {...{ name, chosen, columns, axis, smoothing }}
      version={client.version}
      shown={{ ...(figures.get(name) ?? AS_GIVEN), hidden }}
      change={(shown) => change(name, shown)}
    />
  );
  const first = names.filter((name) => name === 'loss' || name.startsWith('validation '));
  const rest = names.filter((name) => !first.includes(name));
  if (!names.length) return <Waiting chosen={chosen} />;
  return (
    <>
      <Tools {...{ axis, smoothing, router }} />
      <div class="curves">{first.map(draw)}</div>
      {rest.length > 0 && (
        <details class="more" open={router.one('more') === '1'}>
          <summary
            onClick={(event) => {
              event.preventDefault();
              router.set({ more: [router.one('more') === '1' ? '' : '1'] });
            }}
          >
            More: {rest.join(', ')}
          </summary>
          {router.one('more') === '1' && <div class="curves">{rest.map(draw)}</div>}
        </details>
      )}
    </>
  );
}

// "yl.t loss" in the address
function shownFigures(texts: string[]): Map<string, Shown> {
  return new Map(
    texts.map((text) => {
      const at = text.indexOf(' ');
      return [text.slice(at + 1), parseShown(text.slice(0, at))];
    }),
  );
}

function Waiting({ chosen }: { chosen: Run[] }) {
  const { link } = useClient();
  if (chosen.some((run) => run.step)) {
    if (link.state === 'begun' || link.state === 'live') return <Busy text="Reading the curves…" />;
    return <p class="dim">The curves come with the connection.</p>;
  }
  if (chosen.every((run) => run.state === 'broken')) return null;
  return <p class="dim none">No step was taken yet, so there is nothing to draw.</p>;
}

function Tools({ axis, smoothing, router }: { axis: Axis; smoothing: number; router: Router }) {
  return (
    <div class="curve-tools" role="group" aria-label="How curves are drawn">
      <label class="slider-line">
        <span>Smoothing</span>
        <input
          type="range"
          min={0}
          max={MOST_SMOOTH}
          step={0.01}
          value={smoothing}
          aria-valuetext={smoothing ? smoothing.toFixed(2) : 'none'}
          onInput={(event) =>
            router.set({ smooth: [event.currentTarget.value === '0' ? '' : event.currentTarget.value] })
          }
        />
        <output class="number">{smoothing ? smoothing.toFixed(2) : 'none'}</output>
      </label>
      <label>
        <span>Over</span>{' '}
        <select
          value={axis}
          onChange={(event) => router.set({ axis: [event.currentTarget.value] })}
        >
          {AXES.map((each) => (
            <option key={each} value={each} selected={each === axis}>
              {AXIS_NAMES[each]}
            </option>
          ))}
        </select>
      </label>
    </div>
  );
}

interface MetricProps {
  name: string;
  chosen: Run[];
  columns: (Columns | undefined)[];
  axis: Axis;
  smoothing: number;
  version: number;
  shown: Shown;
  change: (shown: Shown) => void;
}

function Metric({ name, chosen, columns, axis, smoothing, version, shown, change }: MetricProps) {
  const having = chosen.map((_, i) => i).filter((i) => columns[i]?.columns.has(name));
  const xLog = shown.xLog ?? false;
  const ids = chosen.map((run) => run.id).join('\n');
  const plot = useMemo((): Lines => {
    const how = { axis, smoothing, columns: COLUMNS, xLog };
    const series = having.map((i) => ({
      name: chosen[i].id === '.' ? chosen[i].name : chosen[i].id,
      literal: true,
      pen: i,
      ...lineOf(columns[i], name, how),
    }));
    const x = AXIS_NAMES[axis];
    return { kind: 'lines', x, y: name.replace('validation ', ''), xLog: false, yLog: false, series, marks: [], nearest: true };
  }, [version, ids, name, axis, smoothing, xLog]);
  const own = having.flatMap((i, at) => (shown.hidden.includes(i) ? [at] : []));
  return (
    <Figure
      plot={plot}
      title={titleOf(name)}
      height={260}
      shown={{ ...shown, hidden: own }}
      change={(next) => {
        const absent = shown.hidden.filter((i) => !having.includes(i));
        change({ ...next, hidden: [...absent, ...next.hidden.map((at) => having[at])] });
      }}
    />
  );
}

export function titleOf(name: string): string {
  if (name === 'loss') return 'training loss';
  return { norm: 'gradient norm', rate: 'learning rate, as a share', padding: 'padding' }[name] ?? name;
}
