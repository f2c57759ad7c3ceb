// Attention in the plane: a board with keys and queries, a board with values and outputs, the
// weights, and the settings.

import { useMemo, useRef } from 'preact/hooks';
import { useMode } from '../report/figure';
import { formatFixed, formatShort } from '../report/number-format';
import { Board, type PointCloud, type BoardPoint } from './point-board';
import type { Matrix, Vector } from './math';
import { PointsTable } from './points-table';
import { evaluatePlane, allowedKeys, type PlaneResult, type Plane } from './plane-attention';
import { PlaneSettings } from './plane-settings';
import { boardsSvg, planeTable } from './save-boards';
import { SaveFigure } from '../shared/save-figure';
import { keyColor, WeightsTable } from './weights-table';

const BOARD_RANGE = 2.5;

interface Props {
  presetPlane: Plane; // as in the preset
  plane: Plane;
  replace: (plane: Plane) => void;
}

export function PlaneView({ presetPlane, plane, replace }: Props) {
  const result = useMemo(() => evaluatePlane(plane), [plane]);
  const presetResult = useMemo(() => evaluatePlane(presetPlane), [presetPlane]);
  const update = (changes: Partial<Plane>): void => replace({ ...plane, ...changes });
  const container = useRef<HTMLDivElement>(null);
  const mode = useMode();
  return (
    <>
      <div class="plane" ref={container}>
        <Board
          title={plane.self ? 'Tokens and their queries' : 'Keys and queries'}
          range={BOARD_RANGE}
          points={keysAndQueries(plane, result, update)}
          clouds={result.noisyKeySamples.map((points, i): PointCloud => ({
            id: `k${i}`,
            points,
            color: keyColor(i),
          }))}
        />
        <Board
          title={plane.self ? 'Values and outputs' : 'Values and output'}
          range={BOARD_RANGE}
          points={valuesAndOutputs(plane, result, update)}
          clouds={[{ id: 'c', points: result.noisyOutputs, color: 'var(--ink)' }]}
        />
        <div class="results">
          <WeightsTable {...{ plane, result, presetResult, update }} />
          <OutputSummary {...{ plane, result }} />
          <div>
            <SaveFigure
              mode={mode}
              name="plane"
              svg={(options) => (container.current ? boardsSvg(container.current, options) : '')}
              table={() => planeTable(plane, result)}
            />
          </div>
        </div>
      </div>
      <PlaneSettings {...{ plane, update, replace }} />
      <PointsTable {...{ plane, update }} />
    </>
  );
}

function withPoint(list: Matrix, i: number, at: Vector): Matrix {
  return list.map((each, j) => (j === i ? at : each));
}

function keysAndQueries(
  plane: Plane,
  result: PlaneResult,
  update: (changes: Partial<Plane>) => void,
): BoardPoint[] {
  const meanWeight = (i: number): number =>
    plane.self
      ? result.rows[plane.asking].weights[i]
      : result.rows.reduce((sum, row) => sum + row.weights[i], 0) / result.rows.length;
  const pointName = plane.self ? 'token' : 'key';
  const keys = plane.keys.map((at, i): BoardPoint => ({
    id: `key-${i}`,
    name: `${pointName} ${i + 1}`,
    label: `${plane.self ? 'x' : 'k'}${SUBSCRIPTS[i]}`,
    at,
    shape: 'circle',
    color: keyColor(i),
    weight: meanWeight(i),
    faint: !allowedKeys(plane, plane.self ? plane.asking : 0)[i],
    detail: `weight ${formatFixed(meanWeight(i), 2)}`,
    move: (next) => update({ keys: withPoint(plane.keys, i, next) }),
  }));
  const queries = result.queries.map((at, i): BoardPoint => ({
    id: `query-${i}`,
    name: plane.self ? `query of token ${i + 1}` : `query ${i + 1}`,
    label: `q${result.queries.length > 1 ? SUBSCRIPTS[i] : ''}`,
    at,
    shape: 'arrow',
    color: plane.self ? keyColor(i) : 'var(--ink)',
    faint: plane.self && i !== plane.asking,
    move: plane.self ? undefined : (next) => update({ queries: withPoint(plane.queries, i, next) }),
  }));
  if (plane.self) return [...queries, ...keys];
  return [...keys, ...(plane.identical ? queries.slice(0, 1) : queries)]; // later ones are on top
}

const SUBSCRIPTS = ['₁', '₂', '₃', '₄', '₅', '₆'];

function valuesAndOutputs(
  plane: Plane,
  result: PlaneResult,
  update: (changes: Partial<Plane>) => void,
): BoardPoint[] {
  const row = result.rows[plane.self ? plane.asking : 0];
  const values = result.values.map((at, i): BoardPoint => ({
    id: `value-${i}`,
    name: `value ${i + 1}`,
    label: `v${SUBSCRIPTS[i]}`,
    at,
    shape: 'square',
    color: keyColor(i),
    weight: plane.self || result.rows.length === 1 ? Math.min(1, row.weights[i]) : 0.5,
    move: plane.self ? undefined : (next) => update({ values: withPoint(plane.values, i, next) }),
  }));
  const showRows = result.rows.length > 1 && !(plane.identical && !plane.self);
  const rows = result.rows.map(({ output }, i): BoardPoint => ({
    id: `row-${i}`,
    name: plane.self ? `output of token ${i + 1}` : `output of head ${i + 1}`,
    label: `c${SUBSCRIPTS[i]}`,
    at: output,
    shape: 'diamond',
    color: plane.self ? keyColor(i) : 'var(--dim)',
    faint: !plane.self,
  }));
  const output: BoardPoint = {
    id: 'output',
    name: 'output',
    label: 'c',
    at: result.output,
    shape: 'diamond',
    color: 'var(--ink)',
  };
  const meanPoint: BoardPoint[] = result.spread
    ? [
        {
          id: 'mean',
          name: 'mean output',
          label: '',
          at: result.spread.mean,
          shape: 'cross',
          color: 'var(--warn)',
        },
      ]
    : [];
  return [...values, ...(showRows ? rows : []), ...(plane.self ? [] : [output]), ...meanPoint];
}

function OutputSummary({ plane, result }: { plane: Plane; result: PlaneResult }) {
  const { spread } = result;
  const meanOffset = spread && Math.hypot(...result.output.map((x, i) => x - spread.mean[i]));
  const name = plane.self ? `Output of token ${plane.asking + 1}` : 'Output';
  return (
    <dl class="result number">
      <div>
        <dt>
          <span aria-hidden="true">◆ </span>
          {name}
        </dt>
        <dd>{formatPoint(result.output)}</dd>
      </div>
      {spread && (
        <>
          <div>
            <dt>
              <span class="cross" aria-hidden="true">
                +{' '}
              </span>
              Mean over {result.noisyOutputs.length} samples
            </dt>
            <dd>{formatPoint(spread.mean)}</dd>
          </div>
          <div>
            <dt>Distance of the mean from the output without noise</dt>
            <dd>{formatShort(Number(meanOffset?.toPrecision(3)))}</dd>
          </div>
          <div>
            <dt>Variance of the output</dt>
            <dd>{formatShort(Number(spread.variance.toPrecision(3)))}</dd>
          </div>
        </>
      )}
    </dl>
  );
}

function formatPoint(at: Vector): string {
  return at.map((x) => formatFixed(x, 3)).join(', ');
}
