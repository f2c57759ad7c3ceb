// The plane itself: keys and queries on one board, values and outputs on the other, weights, and
// what can be set.

import { useMemo } from 'preact/hooks';
import { fixed, short } from '../report/numbers';
import { Board, type Cloud, type Thing } from './board';
import type { Matrix, Vector } from './math';
import { Numbers } from './numbers-table';
import { evaluate, seen, type Found, type Plane } from './plane';
import { Settings } from './plane-settings';
import { colorOf, Weights } from './weights';

const RANGE = 2.5;

interface Props {
  begun: Plane; // as the preset has it
  plane: Plane;
  replace: (plane: Plane) => void;
}

export function PlaneView({ begun, plane, replace }: Props) {
  const found = useMemo(() => evaluate(plane), [plane]);
  const before = useMemo(() => evaluate(begun), [begun]);
  const set = (some: Partial<Plane>): void => replace({ ...plane, ...some });
  return (
    <>
      <div class="plane">
        <Board
          title={plane.self ? 'Tokens, and what each asks for' : 'Keys and queries'}
          range={RANGE}
          things={left(plane, found, set)}
          clouds={found.clouds.map(
            (points, i): Cloud => ({ id: `k${i}`, points, color: colorOf(i) }),
          )}
        />
        <Board
          title={plane.self ? 'Values, and the outputs' : 'Values and output'}
          range={RANGE}
          things={right(plane, found, set)}
          clouds={[{ id: 'c', points: found.outputs, color: 'var(--ink)' }]}
        />
        <div class="results">
          <Weights {...{ plane, found, before, set }} />
          <Outcome {...{ plane, found }} />
        </div>
      </div>
      <Settings {...{ plane, set, replace }} />
      <Numbers {...{ plane, set }} />
    </>
  );
}

function replaced(list: Matrix, i: number, at: Vector): Matrix {
  return list.map((each, j) => (j === i ? at : each));
}

function left(plane: Plane, found: Found, set: (some: Partial<Plane>) => void): Thing[] {
  const mean = (i: number): number =>
    plane.self
      ? found.rows[plane.asking].weights[i]
      : found.rows.reduce((sum, row) => sum + row.weights[i], 0) / found.rows.length;
  const noun = plane.self ? 'token' : 'key';
  const keys = plane.keys.map(
    (at, i): Thing => ({
      id: `key-${i}`,
      name: `${noun} ${i + 1}`,
      label: `${plane.self ? 'x' : 'k'}${LOW[i]}`,
      at,
      shape: 'circle',
      color: colorOf(i),
      share: mean(i),
      faint: !seen(plane, plane.self ? plane.asking : 0)[i],
      told: `weight ${fixed(mean(i), 2)}`,
      move: (next) => set({ keys: replaced(plane.keys, i, next) }),
    }),
  );
  const queries = found.queries.map(
    (at, i): Thing => ({
      id: `query-${i}`,
      name: plane.self ? `query of token ${i + 1}` : `query ${i + 1}`,
      label: `q${found.queries.length > 1 ? LOW[i] : ''}`,
      at,
      shape: 'arrow',
      color: plane.self ? colorOf(i) : 'var(--ink)',
      faint: plane.self && i !== plane.asking,
      move: plane.self ? undefined : (next) => set({ queries: replaced(plane.queries, i, next) }),
    }),
  );
  if (plane.self) return [...queries, ...keys];
  return [...keys, ...(plane.identical ? queries.slice(0, 1) : queries)]; // which are grabbed first
}

const LOW = ['₁', '₂', '₃', '₄', '₅', '₆'];

function right(plane: Plane, found: Found, set: (some: Partial<Plane>) => void): Thing[] {
  const row = found.rows[plane.self ? plane.asking : 0];
  const values = found.values.map(
    (at, i): Thing => ({
      id: `value-${i}`,
      name: `value ${i + 1}`,
      label: `v${LOW[i]}`,
      at,
      shape: 'square',
      color: colorOf(i),
      share: plane.self || found.rows.length === 1 ? Math.min(1, row.weights[i]) : 0.5,
      move: plane.self ? undefined : (next) => set({ values: replaced(plane.values, i, next) }),
    }),
  );
  const several = found.rows.length > 1 && !(plane.identical && !plane.self);
  const rows = found.rows.map(
    ({ output }, i): Thing => ({
      id: `row-${i}`,
      name: plane.self ? `output of token ${i + 1}` : `output of head ${i + 1}`,
      label: `c${LOW[i]}`,
      at: output,
      shape: 'diamond',
      color: plane.self ? colorOf(i) : 'var(--dim)',
      faint: !plane.self,
    }),
  );
  const output: Thing = {
    id: 'output',
    name: 'output',
    label: 'c',
    at: found.output,
    shape: 'diamond',
    color: 'var(--ink)',
  };
  const mean: Thing[] = found.spread
    ? [
        {
          id: 'mean',
          name: 'mean output',
          label: '',
          at: found.spread.mean,
          shape: 'cross',
          color: 'var(--warn)',
        },
      ]
    : [];
  return [...values, ...(several ? rows : []), ...(plane.self ? [] : [output]), ...mean];
}

function Outcome({ plane, found }: { plane: Plane; found: Found }) {
  const { spread } = found;
  const gap = spread && Math.hypot(...found.output.map((x, i) => x - spread.mean[i]));
  const name = plane.self ? `Output of token ${plane.asking + 1}` : 'Output';
  return (
    <dl class="result number">
      <div>
        <dt>
          <span aria-hidden="true">◆ </span>
          {name}
        </dt>
        <dd>{point(found.output)}</dd>
      </div>
      {spread && (
        <>
          <div>
            <dt>
              <span class="cross" aria-hidden="true">
                +{' '}
              </span>
              Mean over {found.outputs.length} samples
            </dt>
            <dd>{point(spread.mean)}</dd>
          </div>
          <div>
            <dt>Its distance from the output without noise</dt>
            <dd>{short(Number(gap?.toPrecision(3)))}</dd>
          </div>
          <div>
            <dt>Variance of the output</dt>
            <dd>{short(Number(spread.variance.toPrecision(3)))}</dd>
          </div>
        </>
      )}
    </dl>
  );
}

function point(at: Vector): string {
  return at.map((x) => fixed(x, 3)).join(', ');
}
