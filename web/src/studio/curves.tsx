// The live curves of the selected runs, one figure per metric.

import { useMemo } from 'preact/hooks';
import { Figure } from '../report/figure';
import type { Lines } from '../report/plot-data';
import { DEFAULT_FIGURE_OPTIONS, parseFigureOptions, printFigureOptions, type FigureOptions } from '../report/figure-options';
import { useWindowState } from './window-state';
import { AXES, metricNames, type Axis, type MetricColumns as Columns } from './metrics-store';
import { BusyMessage } from './components';
import type { Run } from './api-helpers';
import type { Router } from './router';
import { curvePoints } from './curve-points';

const AXIS_NAMES: Record<Axis, string> = {
  step: 'step',
  seconds: 'seconds of training',
  tokens: 'tokens read',
};
const PIXEL_COLUMNS = 700; // for which points are thinned
const MAX_SMOOTHING = 0.99;

export function Curves({ selected, router }: { selected: Run[]; router: Router }) {
  const windowState = useWindowState();
  const axis = AXES.find((name) => name === router.one('axis')) ?? 'step';
  const smoothing = Math.min(MAX_SMOOTHING, Math.max(0, Number(router.one('smooth')) || 0));
  const columns = selected.map((run) => windowState.metrics.of(run.id));
  const names = metricNames(columns);
  const figures = parseFigures(router.route.fields.figure ?? []);
  const change = (name: string, options: FigureOptions): void => {
    // a run that is hidden in one figure is hidden in all
    const all = new Map([...figures].map(([metric, old]) => [metric, { ...old, hidden: [] }]));
    all.set(name, { ...options, hidden: [] });
    const changed = [...all].map(([metric, figure]) => [metric, printFigureOptions(figure)]).filter(([, text]) => text);
    router.set({
      figure: changed.map(([metric, text]) => `${text} ${metric}`),
      hide: options.hidden.map((index) => selected[index]?.id ?? ''),
    });
  };
  const hiddenIds = router.route.fields.hide ?? [];
  const hidden = selected.flatMap((run, i) => (hiddenIds.includes(run.id) ? [i] : []));
  const figureOf = (name: string) => (
    <MetricFigure
      key={name}
      {...{ name, selected, columns, axis, smoothing }}
      version={windowState.version}
      options={{ ...(figures.get(name) ?? DEFAULT_FIGURE_OPTIONS), hidden }}
      change={(options) => change(name, options)}
    />
  );
  const first = names.filter((name) => name === 'loss' || name.startsWith('validation '));
  const rest = names.filter((name) => !first.includes(name));
  if (!names.length) return <NoCurves selected={selected} />;
  return (
    <>
      <CurveOptionFields {...{ axis, smoothing, router }} />
      <div class="curves">{first.map(figureOf)}</div>
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
          {router.one('more') === '1' && <div class="curves">{rest.map(figureOf)}</div>}
        </details>
      )}
    </>
  );
}

// Parses fields of the address such as "yl.t loss".
function parseFigures(texts: string[]): Map<string, FigureOptions> {
  return new Map(
    texts.map((text) => {
      const space = text.indexOf(' ');
      return [text.slice(space + 1), parseFigureOptions(text.slice(0, space))];
    }),
  );
}

function NoCurves({ selected }: { selected: Run[] }) {
  const { link } = useWindowState();
  if (selected.some((run) => run.step)) {
    if (link.state === 'connecting' || link.state === 'live') return <BusyMessage text="Reading the curves…" />;
    return <p class="dim">The curves appear once the studio is connected.</p>;
  }
  if (selected.every((run) => run.state === 'broken')) return null;
  return <p class="dim none">There are no curves yet: no step is finished.</p>;
}

function CurveOptionFields({ axis, smoothing, router }: { axis: Axis; smoothing: number; router: Router }) {
  return (
    <div class="curve-tools" role="group" aria-label="Options of the curves">
      <label class="slider-line">
        <span>Smoothing</span>
        <input
          type="range"
          min={0}
          max={MAX_SMOOTHING}
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
          {AXES.map((name) => (
            <option key={name} value={name} selected={name === axis}>
              {AXIS_NAMES[name]}
            </option>
          ))}
        </select>
      </label>
    </div>
  );
}

interface MetricFigureProps {
  name: string;
  selected: Run[];
  columns: (Columns | undefined)[];
  axis: Axis;
  smoothing: number;
  version: number;
  options: FigureOptions;
  change: (options: FigureOptions) => void;
}

function MetricFigure({ name, selected, columns, axis, smoothing, version, options, change }: MetricFigureProps) {
  const having = selected.map((_, i) => i).filter((i) => columns[i]?.columns.has(name));
  const xLog = options.xLog ?? false;
  const ids = selected.map((run) => run.id).join('\n');
  const plot = useMemo((): Lines => {
    const curveOptions = { axis, smoothing, columns: PIXEL_COLUMNS, xLog };
    const series = having.map((i) => ({
      name: selected[i].id === '.' ? selected[i].name : selected[i].id,
      literal: true,
      pen: i,
      ...curvePoints(columns[i], name, curveOptions),
    }));
    const x = AXIS_NAMES[axis];
    return { kind: 'lines', x, y: name.replace('validation ', ''), xLog: false, yLog: false, series, marks: [], nearest: true };
  }, [version, ids, name, axis, smoothing, xLog]);
  const hidden = having.flatMap((i, index) => (options.hidden.includes(i) ? [index] : []));
  return (
    <Figure
      plot={plot}
      title={metricTitle(name)}
      height={260}
      options={{ ...options, hidden }}
      change={(next) => {
        const absent = options.hidden.filter((i) => !having.includes(i));
        change({ ...next, hidden: [...absent, ...next.hidden.map((index) => having[index])] });
      }}
    />
  );
}

export function metricTitle(name: string): string {
  if (name === 'loss') return 'training loss';
  return { norm: 'gradient norm', rate: 'learning rate, relative to its maximum', padding: 'padding' }[name] ?? name;
}
