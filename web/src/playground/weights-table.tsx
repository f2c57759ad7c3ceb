// The table of weights: a row per key, a column per head or per query token.

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
  const columns = result.rows.map((row, i) => ({ row, i })).slice(0, sharedQuery ? 1 : undefined);
  const presetWeight = (column: number, key: number): number | undefined =>
    presetResult.rows.length === result.rows.length
      ? presetResult.rows[column]?.weights[key]
      : undefined;
  const toggle = (key: number, on: boolean): void =>
    update({ allowed: plane.allowed.map((each, i) => (i === key ? on : each)) });
  return (
    <table class="weights">
      <caption class="quiet">Weights</caption>
      <thead>
        <tr>
          <th scope="col">allowed</th>
          {columns.map(({ i }) => (
            <th key={i} scope="col">
              {plane.self ? (
                <button
                  type="button"
                  class="query-token"
                  aria-pressed={plane.asking === i}
                  title="Show the weights and the output of this token"
                  onClick={() => update({ asking: i })}
                >
                  x{i + 1}
                </button>
              ) : sharedQuery ? (
                'all heads'
              ) : result.rows.length > 1 ? (
                `head ${i + 1}`
              ) : (
                'weight'
              )}
            </th>
          ))}
        </tr>
      </thead>
      <tbody>
        {plane.keys.map((_, key) => (
          <tr key={key}>
            <th scope="row">
              <label>
                <input
                  type="checkbox"
                  aria-label={`key ${key + 1} is allowed`}
                  checked={plane.allowed[key]}
                  onChange={(event) => toggle(key, event.currentTarget.checked)}
                />
                <i class="dot" style={{ background: keyColor(key) }} />
                {plane.self ? 'x' : 'k'}
                {key + 1}
              </label>
            </th>
            {columns.map(({ row, i }) => (
              <td key={i}>
                <WeightCell
                  weight={row.weights[key]}
                  presetWeight={presetWeight(i, key)}
                  color={keyColor(key)}
                />
              </td>
            ))}
          </tr>
        ))}
        <tr class="foot">
          <th scope="row">sum</th>
          {columns.map(({ row, i }) => (
            <td key={i}>
              {formatFixed(
                row.weights.reduce((sum, each) => sum + each, 0),
                2,
              )}
            </td>
          ))}
        </tr>
        <tr class="foot">
          <th
            scope="row"
            title="In nats; in parentheses its exponential, the effective number of keys"
          >
            entropy
          </th>
          {columns.map(({ i }) => (
            <td key={i}>
              {formatFixed(result.entropies[i], 2)}
              {columns.length < 3 && (
                <span class="dim"> ({formatFixed(Math.exp(result.entropies[i]), 1)} keys)</span>
              )}
            </td>
          ))}
        </tr>
      </tbody>
    </table>
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
