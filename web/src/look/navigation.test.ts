import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { firstTarget, nextTarget, pan, sameTarget, targetAt, zoomAt, zoomTo } from './navigation';
import type { Drawing, Target, ZoomArea } from './view';

const target = (key: string, x: number, y: number, w = 10, h = 10): Target => ({
  key,
  x,
  y,
  w,
  h,
  label: key,
});
const base = { width: 200, height: 100, marks: [], summary: '' };
const columns: Drawing = {
  ...base,
  targets: [0, 1, 2].flatMap((i) => [target(`q${i}`, 0, i * 10), target(`k${i}`, 150, i * 10)]),
};
const cells: Drawing = {
  ...base,
  targets: [0, 1, 2].map((i) => target(`row${i}`, 0, 20 + i * 10)),
  targetAt: (x, y) => {
    const [q, k] = [Math.floor((y - 20) / 10), Math.floor((x - 50) / 10)];
    return q < 0 || k < 0 || q > 2 || k > 4 ? null : target(`${q} ${k}`, 50 + k * 10, 20 + q * 10);
  },
};

describe('arrow keys', () => {
  const keyAfter = (
    drawing: Drawing,
    from: Target,
    ...path: ('left' | 'right' | 'up' | 'down')[]
  ): string | undefined =>
    path.reduce((at, direction) => nextTarget(drawing, at, direction), from).key;

  it('move along columns and rows, and stop at the edge', () => {
    const first = firstTarget(columns) as Target;
    expect(first.key).toBe('q0');
    expect(keyAfter(columns, first, 'down', 'down', 'right')).toBe('k2');
    expect(keyAfter(columns, first, 'up')).toBe('q0');
    expect(keyAfter(columns, first, 'right', 'down', 'left')).toBe('q1');
  });

  it('move from cell to cell, and between labels and cells', () => {
    const cell = targetAt(cells, 55, 25) as Target;
    expect(keyAfter(cells, cell, 'right', 'down', 'down', 'down')).toBe('2 1');
    expect(keyAfter(cells, cell, 'left')).toBe('row0');
    expect(keyAfter(cells, cell, 'left', 'down', 'right')).toBe('1 0');
  });

  it('reach every cell and every target', () => {
    for (const drawing of [columns, cells]) {
      const visited = new Map<string, Target>();
      const todo = [firstTarget(drawing) as Target];
      while (todo.length) {
        const at = todo.pop() as Target;
        if (visited.has(at.key as string)) continue;
        visited.set(at.key as string, at);
        for (const direction of ['left', 'right', 'up', 'down'] as const)
          todo.push(nextTarget(drawing, at, direction));
      }
      expect(visited.size).toBe(drawing === columns ? 6 : 18);
    }
  });

  it('keep the target after a redraw', () => {
    const moved: Drawing = { ...columns, targets: [target('k1', 80, 80)] };
    expect(sameTarget(moved, columns.targets[3])?.x).toBe(80);
    expect(sameTarget(moved, columns.targets[0])).toBeNull();
    expect(
      sameTarget(
        { ...base, targets: [], findByKey: (key) => target(key, 5, 5) },
        target('cell', 0, 0),
      )?.x,
    ).toBe(5);
  });
});

describe('zooming', () => {
  const zoomed: ZoomArea = {
    x: 10,
    y: 20,
    w: 100,
    h: 50,
    window: [0, 9, 0, 19],
    rows: 10,
    columns: 20,
  };

  it('keeps the point fixed, and ends with the whole matrix', () => {
    expect(zoomAt(zoomed, 2, 10, 20)).toEqual([0, 4, 0, 9]);
    expect(zoomAt(zoomed, 2, 110, 70)).toEqual([5, 9, 10, 19]);
    expect(zoomAt({ ...zoomed, window: [2, 6, 5, 14] }, 0.25, 60, 45)).toBeNull();
    expect(zoomTo(zoomed, 35, 20, 84, 44)).toEqual([0, 4, 5, 14]);
    expect(zoomTo(zoomed, 500, 500, -5, -5)).toBeNull();
    expect(pan({ ...zoomed, window: [0, 3, 0, 19] }, 'down')).toEqual([1, 4, 0, 19]);
    expect(pan({ ...zoomed, window: [6, 9, 0, 19] }, 'down')).toEqual([6, 9, 0, 19]);
  });

  it('stays within the matrix, and always changes by at least one cell', () => {
    const coordinate = fc.double({ min: -50, max: 200, noNaN: true });
    fc.assert(
      fc.property(
        fc.nat(9),
        fc.nat(9),
        fc.nat(19),
        fc.nat(19),
        fc.constantFrom(1.25, 0.8, 1.5),
        coordinate,
        coordinate,
        (a, b, c, d, factor, x, y) => {
          const window: ZoomArea['window'] = [
            Math.min(a, b),
            Math.max(a, b),
            Math.min(c, d),
            Math.max(c, d),
          ];
          const [top, bottom, left, right] = zoomAt({ ...zoomed, window }, factor, x, y) ?? [
            0, 9, 0, 19,
          ];
          expect(
            top >= 0 && top <= bottom && bottom < 10 && left >= 0 && left <= right && right < 20,
          ).toBe(true);
          if (factor < 1 && window[1] - window[0] < 9)
            expect(bottom - top).toBeGreaterThan(window[1] - window[0]);
        },
      ),
    );
  });
});
