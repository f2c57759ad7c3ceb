// The points as numbers, to be read and typed.

import { NumberBox } from './controls';
import type { Matrix } from './math';
import type { Plane } from './plane';

export function Numbers({ plane, set }: { plane: Plane; set: (some: Partial<Plane>) => void }) {
  const edit = (list: Matrix, i: number, axis: number, value: number): Matrix =>
    list.map((each, j) => (j === i ? each.map((x, k) => (k === axis ? value : x)) : each));
  const groups: [string, 'keys' | 'values' | 'queries'][] = plane.self
    ? [['token', 'keys']]
    : [
        ['key', 'keys'],
        ['value', 'values'],
        ['query', 'queries'],
      ];
  return (
    <details class="points">
      <summary>Points as numbers</summary>
      <div class="lists">
        {groups.map(([noun, name]) => (
          <table key={name}>
            <thead>
              <tr>
                <th scope="col">{noun}</th>
                <th scope="col">x</th>
                <th scope="col">y</th>
              </tr>
            </thead>
            <tbody>
              {plane[name].map((at, i) => (
                <tr key={i}>
                  <th scope="row">{i + 1}</th>
                  {at.map((x, axis) => (
                    <td key={axis}>
                      <NumberBox
                        label={`${noun} ${i + 1}, ${'xy'[axis]}`}
                        value={x}
                        set={(next) => set({ [name]: edit(plane[name], i, axis, next) })}
                      />
                    </td>
                  ))}
                </tr>
              ))}
            </tbody>
          </table>
        ))}
      </div>
    </details>
  );
}
