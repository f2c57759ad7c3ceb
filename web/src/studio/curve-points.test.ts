import fc from 'fast-check';
import { expect, test } from 'vitest';
import { Metrics } from './metrics-store';
import { curvePoints, smooth, thinPoints } from './curve-points';

test('smoothing: by hand, without a bias toward 0, skipping values that are not finite', () => {
  const smoothed = smooth([4, 8, NaN, 2], 0.5);
  expect(smoothed[0]).toBe(4);
  expect(smoothed[1]).toBeCloseTo((0.5 * 0.5 * 4 + 0.5 * 8) / 0.75, 12);
  expect(smoothed[2]).toBeNaN();
  expect(smoothed[3]).toBeCloseTo((0.125 * 4 + 0.25 * 8 + 0.5 * 2) / 0.875, 12);
  expect(smooth([1, 5, 2], 0)).toEqual([1, 5, 2]);
});

test('smoothing stays between minimum and maximum, and keeps a constant', () => {
  fc.assert(
    fc.property(
      fc.array(fc.double({ min: -1e6, max: 1e6, noNaN: true }), { minLength: 1 }),
      fc.double({ min: 0, max: 0.999, noNaN: true }),
      (values, weight) => {
        const tolerance = 1e-6 * (1 + Math.max(...values.map(Math.abs)));
        for (const value of smooth(values, weight)) {
          expect(value).toBeGreaterThanOrEqual(Math.min(...values) - tolerance);
          expect(value).toBeLessThanOrEqual(Math.max(...values) + tolerance);
        }
      },
    ),
  );
  for (const value of smooth(Array(500).fill(3), 0.99)) expect(value).toBeCloseTo(3, 9);
});

const wave = (count: number): [number, number][] =>
  Array.from({ length: count }, (_, i) => [i + 1, Math.sin(i / 7) + (i === 4321 ? 50 : 0)]);

test('thinning keeps ends, peaks and order, and adds no points', () => {
  const all = wave(10000);
  for (const log of [false, true]) {
    const kept = thinPoints(all, 300, log);
    expect(kept.length).toBeLessThanOrEqual(1200);
    expect(kept.length).toBeGreaterThan(300);
    expect(kept[0]).toEqual(all[0]);
    expect(kept.at(-1)).toEqual(all.at(-1));
    expect(kept.some(([, y]) => y > 49)).toBe(true);
    expect(kept.every(([x], i) => i === 0 || x > kept[i - 1][0])).toBe(true);
    expect(kept.every(([x, y]) => all[x - 1][1] === y)).toBe(true);
  }
});

test('a short line is not thinned, and values that are not finite are kept', () => {
  expect(thinPoints([[1, 2], [2, NaN], [NaN, 3], [3, 4]], 10)).toEqual([[1, 2], [3, 4], [2, NaN]]); // prettier-ignore
  expect(thinPoints([[0, 2], [2, 5]], 10, true)).toEqual([[2, 5]]); // prettier-ignore
  expect(thinPoints(Array(100).fill([3, 1]), 4).length).toBeLessThanOrEqual(4);
});

test('curves over steps, seconds or tokens; validation has its own rows', () => {
  const metrics = new Metrics();
  const rows = [
    { step: 1, seconds: 0.5, tokens: 10, loss: 4 },
    { step: 2, seconds: 1.5, tokens: 30, loss: 2, validation: { loss: 3 } },
  ];
  metrics.add({ run: 'a', after: 0, rows, next: 2, again: false, mark: '', total: 2 });
  const curves = metrics.of('a');
  const options = { axis: 'seconds', smoothing: 0, columns: 100, xLog: false } as const;
  const xy = (points: { x: number; y: number }[]) => points.map(({ x, y }) => [x, y]);
  expect(xy(curvePoints(curves, 'loss', options).points)).toEqual([[0.5, 4], [1.5, 2]]); // prettier-ignore
  expect(xy(curvePoints(curves, 'validation loss', { ...options, axis: 'tokens' }).points)).toEqual([[30, 3]]);
  const smoothedCurve = curvePoints(curves, 'loss', { ...options, smoothing: 0.5 });
  expect(smoothedCurve.points[1].y).toBeCloseTo((0.25 * 4 + 0.5 * 2) / 0.75, 12);
  expect(xy(smoothedCurve.ghost)).toEqual([[0.5, 4], [1.5, 2]]); // prettier-ignore
  expect(curvePoints(curves, 'absent', options).points).toEqual([]);
  expect(curvePoints(undefined, 'loss', options).points).toEqual([]);
});
