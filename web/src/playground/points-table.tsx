// A table of the points, whose coordinates can be edited.

import { NumberBox } from './controls';
import type { Matrix } from './math';
import type { Plane } from './plane-attention';

export function PointsTable({
  plane,
  update,
}: {
  plane: Plane;
  update: (changes: Partial<Plane>) => void;
}) {
  const withCoordinate = (list: Matrix, i: number, axis: number, value: number): Matrix =>
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
        {groups.map(([pointName, listName]) => (
          <table key={listName}>
            <thead>
              <tr>
                <th scope="col">{pointName}</th>
                <th scope="col">x</th>
                <th scope="col">y</th>
              </tr>
            </thead>
            <tbody>
              {plane[listName].map((at, i) => (
                <tr key={i}>
                  <th scope="row">{i + 1}</th>
                  {at.map((x, axis) => (
                    <td key={axis}>
                      <NumberBox
                        label={`${pointName} ${i + 1}, ${'xy'[axis]}`}
                        value={x}
                        onChange={(next) =>
                          update({ [listName]: withCoordinate(plane[listName], i, axis, next) })
                        }
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
