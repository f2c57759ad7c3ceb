// Attention in the plane: keys and queries on one board, values and outputs on the other.

import { useMemo } from 'preact/hooks';
import { fixed, short } from '../report/numbers';
import { Prose } from '../report/page';
import { Board, type Cloud, type Thing } from './board';
import { Settings } from './plane-settings';
import { Weights } from './weights';
import type { Matrix, Vector } from './math';
import { evaluate, seen, type Found, type Plane } from './plane';
import { PRESETS } from './presets';
import { presetOf, type State } from './state';
import { Numbers } from './numbers-table';

const TOPICS = {
  1: 'What one query can retrieve',
  2: 'A hand-made self-attention layer',
  3: 'Temperature, masks, perturbations',
};
const RANGE = 2.5;

export const colourOf = (i: number): string => `var(--c${i})`;

interface Props {
  state: State;
  change: (some: Partial<State>) => void;
}

export function PlanePanel({ state, change }: Props) {
  const { plane } = state;
  const preset = presetOf(state.preset);
  const found = useMemo(() => evaluate(plane), [plane]);
  const before = useMemo(() => evaluate(preset.plane), [preset]);
  const set = (some: Partial<Plane>): void => change({ plane: { ...plane, ...some } });
  const choose = (id: string): void => change({ preset: id, plane: presetOf(id).plane });
  const at = PRESETS.indexOf(preset);
  return (
    <>
      <div class="presets">
        <label class="dim" for="preset">
          Try
        </label>
        <select
          id="preset"
          value={preset.id}
          onChange={(event) => choose(event.currentTarget.value)}
        >
          {([1, 2, 3] as const).map((topic) => (
            <optgroup key={topic} label={TOPICS[topic]}>
              {PRESETS.filter((each) => each.topic === topic).map((each) => (
                <option key={each.id} value={each.id}>
                  {each.title}
                </option>
              ))}
            </optgroup>
          ))}
        </select>
        <button
          type="button"
          aria-label="Previous"
          disabled={at === 0}
          onClick={() => choose(PRESETS[at - 1].id)}
        >
          ←
        </button>
        <button
          type="button"
          aria-label="Next"
          disabled={at === PRESETS.length - 1}
          onClick={() => choose(PRESETS[at + 1].id)}
        >
          →
        </button>
        <button
          type="button"
          class="plainly"
          disabled={plane === preset.plane}
          onClick={() => choose(preset.id)}
        >
          Begin again
        </button>
      </div>
      <p class="try">
        <Prose text={preset.text} /> <span class="dim small which">Claim: {preset.id}</span>
      </p>
      <div class="plane">
        <Board
          title={plane.self ? 'Tokens, and what each asks for' : 'Keys and queries'}
          range={RANGE}
          things={left(plane, found, set)}
          clouds={found.clouds.map(
            (points, i): Cloud => ({ id: `k${i}`, points, colour: colourOf(i) }),
          )}
        />
        <Board
          title={plane.self ? 'Values, and the outputs' : 'Values and output'}
          range={RANGE}
          things={right(plane, found, set)}
          clouds={[{ id: 'c', points: found.outputs, colour: 'var(--ink)' }]}
        />
        <div class="results">
          <Weights {...{ plane, found, set }} before={before} />
          <Outcome {...{ plane, found }} />
        </div>
      </div>
      <Settings {...{ plane, set }} replace={(next) => change({ plane: next })} />
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
      colour: colourOf(i),
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
      colour: plane.self ? colourOf(i) : 'var(--ink)',
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
      colour: colourOf(i),
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
      colour: plane.self ? colourOf(i) : 'var(--dim)',
      faint: !plane.self,
    }),
  );
  const output: Thing = {
    id: 'output',
    name: 'output',
    label: 'c',
    at: found.output,
    shape: 'diamond',
    colour: 'var(--ink)',
  };
  const mean: Thing[] = found.spread
    ? [
        {
          id: 'mean',
          name: 'mean output',
          label: '',
          at: found.spread.mean,
          shape: 'cross',
          colour: 'var(--warn)',
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
    <dl class="outcome number">
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
