// The table of weights: a row per head or query token, a column per key, as matrices are written.

import { formatFixed } from '../report/number-format';
import type { PlaneResult, Plane } from './plane-attention';

export const keyColor = (i: number): string => `var(--c${i})`;

interface WeightsProps {
  plane: Plane;
  result: PlaneResult;
  presetResult: PlaneResult; // result of the unchanged preset
  update: (changes: Partial<Plane>) => void;
}

export function WeightsTable({ plane, result, presetResult, update }: WeightsProps) {
  const sharedQuery = !plane.self && plane.identical;
  const rows = result.rows.map((row, i) => ({ ...row, i })).slice(0, sharedQuery ? 1 : undefined);
  const presetWeight = (query: number, key: number): number | undefined =>
    presetResult.rows.length === result.rows.length
      ? presetResult.rows[query]?.weights[key]
      : undefined;
  return (
    <table class="weights">
      <caption class="quiet">Weights: a row for each query, a column for each key</caption>
      <thead>
        <tr>
          <th scope="col">query</th>
          {plane.keys.map((_, key) => (
            <KeyHeading key={key} {...{ plane, update }} index={key} />
          ))}
          <th scope="col" class="row-sum">
            sum
          </th>
          <th
            scope="col"
            class="row-sum"
            title="In nats; e to the power of the entropy is the effective number of keys"
          >
            entropy
          </th>
        </tr>
      </thead>
      <tbody>
        {rows.map(({ weights, i }) => (
          <tr key={i}>
            <QueryHeading {...{ plane, update }} index={i} name={queryName(plane, result, i)} />
            {weights.map((weight, key) => (
              <td key={key}>
                <WeightCell
                  weight={weight}
                  presetWeight={presetWeight(i, key)}
                  color={keyColor(key)}
                />
              </td>
            ))}
            <td class="row-sum number">{formatFixed(total(weights), 2)}</td>
            <td class="row-sum number">{formatFixed(result.entropies[i], 2)}</td>
          </tr>
        ))}
        {rows.length > 1 && (
          <tr class="foot">
            <th scope="row" title="The sum of a column: what a key gets from all queries">
              gets
            </th>
            {plane.keys.map((_, key) => (
              <td key={key} class="number">
                {formatFixed(total(rows.map(({ weights }) => weights[key])), 2)}
              </td>
            ))}
            <td />
            <td />
          </tr>
        )}
      </tbody>
    </table>
  );
}

const total = (values: number[]): number => values.reduce((sum, each) => sum + each, 0);

function queryName(plane: Plane, result: PlaneResult, i: number): string {
  if (plane.self) return `x${i + 1}`;
  return plane.identical || result.rows.length === 1 ? 'q' : `q${i + 1}`;
}

interface HeadingProps {
  plane: Plane;
  update: (changes: Partial<Plane>) => void;
  index: number;
}

function KeyHeading({ plane, update, index }: HeadingProps) {
  const toggle = (on: boolean): void =>
    update({ allowed: plane.allowed.map((each, i) => (i === index ? on : each)) });
  return (
    <th scope="col">
      <label title="Queries may attend to this key">
        <input
          type="checkbox"
          aria-label={`key ${index + 1} is allowed`}
          checked={plane.allowed[index]}
          onChange={(event) => toggle(event.currentTarget.checked)}
        />
        <span>
          <i class="dot" style={{ background: keyColor(index) }} />
          {plane.self ? 'x' : 'k'}
          {index + 1}
        </span>
      </label>
    </th>
  );
}

function QueryHeading({ plane, update, index, name }: HeadingProps & { name: string }) {
  if (!plane.self) return <th scope="row">{name}</th>;
  return (
    <th scope="row">
      <button
        type="button"
        class="query-token"
        aria-pressed={plane.asking === index}
        title="Show the weights and the output of this token"
        onClick={() => update({ asking: index })}
      >
        {name}
      </button>
    </th>
  );
}

function WeightCell(props: { weight: number; presetWeight: number | undefined; color: string }) {
  const { weight, presetWeight, color } = props;
  const width = (fraction: number): string => `${100 * Math.max(0, Math.min(1, fraction))}%`;
  return (
    <span class="cell">
      <span class="fill" style={{ width: width(weight), background: color }} />
      {presetWeight !== undefined && Math.abs(presetWeight - weight) > 0.002 && (
        <span class="preset-weight" style={{ left: width(presetWeight) }} />
      )}
      <span class="text number">{formatFixed(weight, 2)}</span>
    </span>
  );
}
