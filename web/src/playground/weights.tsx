// The weights: a row for each key, a column for each head or each asking token.

import { fixed } from '../report/numbers';
import type { Found, Plane } from './plane';

export const colorOf = (i: number): string => `var(--c${i})`;

interface Props {
  plane: Plane;
  found: Found;
  before: Found; // as the preset began
  set: (some: Partial<Plane>) => void;
}

export function Weights({ plane, found, before, set }: Props) {
  const same = !plane.self && plane.identical;
  const columns = found.rows.map((row, i) => ({ row, i })).slice(0, same ? 1 : undefined);
  const begun = (column: number, key: number): number | undefined =>
    before.rows.length === found.rows.length ? before.rows[column]?.weights[key] : undefined;
  const toggle = (key: number, on: boolean): void =>
    set({ allowed: plane.allowed.map((each, i) => (i === key ? on : each)) });
  return (
    <table class="weights">
      <caption class="quiet">Weights</caption>
      <thead>
        <tr>
          <th scope="col">seen</th>
          {columns.map(({ i }) => (
            <th key={i} scope="col">
              {plane.self ? (
                <button
                  type="button"
                  class="asking"
                  aria-pressed={plane.asking === i}
                  title="Show what this token gets"
                  onClick={() => set({ asking: i })}
                >
                  x{i + 1}
                </button>
              ) : same ? (
                'all heads'
              ) : found.rows.length > 1 ? (
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
                  aria-label={`key ${key + 1} is seen`}
                  checked={plane.allowed[key]}
                  onChange={(event) => toggle(key, event.currentTarget.checked)}
                />
                <i class="dot" style={{ background: colorOf(key) }} />
                {plane.self ? 'x' : 'k'}
                {key + 1}
              </label>
            </th>
            {columns.map(({ row, i }) => (
              <td key={i}>
                <Cell
                  weight={row.weights[key]}
                  begun={begun(i, key)}
                  color={colorOf(key)}
                />
              </td>
            ))}
          </tr>
        ))}
        <tr class="foot">
          <th scope="row">sum</th>
          {columns.map(({ row, i }) => (
            <td key={i}>{fixed(row.weights.reduce((sum, each) => sum + each, 0), 2)}</td>
          ))}
        </tr>
        <tr class="foot">
          <th scope="row" title="In nats; in brackets as many keys as share the weight">
            entropy
          </th>
          {columns.map(({ i }) => (
            <td key={i}>
              {fixed(found.entropies[i], 2)}
              {columns.length < 3 && (
                <span class="dim"> ({fixed(Math.exp(found.entropies[i]), 1)} keys)</span>
              )}
            </td>
          ))}
        </tr>
      </tbody>
    </table>
  );
}

function Cell(props: { weight: number; begun: number | undefined; color: string }) {
  const { weight, begun, color } = props;
  const width = (share: number): string => `${100 * Math.max(0, Math.min(1, share))}%`;
  return (
    <span class="cell">
      <span class="fill" style={{ width: width(weight), background: color }} />
      {begun !== undefined && Math.abs(begun - weight) > 0.002 && (
        <span class="begun" style={{ left: width(begun) }} />
      )}
      <span class="text number">{fixed(weight, 2)}</span>
    </span>
  );
}
