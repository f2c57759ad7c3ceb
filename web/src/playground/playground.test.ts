import { expect, test } from 'vitest';
import { evaluate, resized, withHeads, type Plane } from './plane';
import { PRESETS, type Preset } from './presets';
import { parse, presetOf, print } from './state';

const found = (id: string, some: Partial<Plane> = {}) =>
  evaluate({ ...presetOf(id).plane, ...some });
const away = (one: number[], other: number[]): number =>
  Math.hypot(one[0] - other[0], one[1] - other[1]);

test('presets are distinct, and each says in two sentences what to try', () => {
  expect(new Set(PRESETS.map((each) => each.id)).size).toBe(PRESETS.length);
  for (const each of PRESETS) {
    expect(each.text.match(/[.](?= |$)/g)?.length, each.id).toBe(2);
    const n = each.plane.keys.length;
    for (const list of [each.plane.noisy, each.plane.allowed]) expect(list).toHaveLength(n);
    expect(each.plane.values).toHaveLength(n);
  }
});

test.each(PRESETS)('the address of $id, and of a changed one', (preset: Preset) => {
  const state = { ...parse(''), preset: preset.id, plane: preset.plane };
  expect(parse(print(state))).toEqual(state);
  const plane: Plane = {
    ...withHeads(resized(preset.plane, 6), 3),
    identical: !preset.plane.identical,
    self: !preset.plane.self,
    beta: 3.25,
    isotropic: 0.125,
    samples: 17,
    seed: 9,
    allowed: [true, false, true, true, false, true],
    how: 'after',
    value: [0.5, 1, -1, 0],
    asking: 5,
  };
  const changed = { ...state, plane, panel: 'positions' as const };
  expect(parse(print(changed))).toEqual(changed);
});

test('nonsense in an address changes nothing', () => {
  const bad =
    'preset=__proto__&keys=1,2;x,3&beta=1e999&samples=-3&allowed=1;1&panel=no&f-d=1e9&p-t=a' +
    '&how=%ff&query=1;2;3&asking=99';
  expect(parse(bad)).toEqual(parse(''));
  expect(parse('keys=1e9,0').plane.keys).toEqual(parse('').plane.keys);
});

// What the presets say is what happens.
test('copy and average', () => {
  const copy = found('copy');
  expect(away(copy.output, copy.values[0])).toBeLessThan(0.02);
  expect(copy.rows[0].weights[0]).toBeGreaterThan(0.99);
  const two = found('average-two');
  const middle = two.values[0].map((x, i) => (x + two.values[1][i]) / 2);
  expect(away(two.output, middle)).toBeLessThan(0.02);
  expect(found('longer-key-wins').rows[0].weights[0]).toBeLessThan(1e-6);
  expect(found('key-scaled').rows[0].weights[2]).toBeGreaterThan(0.9);
});

test('split heads vary far less than one, identical heads exactly as much', () => {
  const variance = (id: string, some: Partial<Plane> = {}): number =>
    found(id, { samples: 500, ...some }).spread?.variance ?? NaN;
  const twin = variance('heads-identical');
  const one = variance('heads-identical', { queries: [[1, 1]] });
  expect(twin).toBeCloseTo(one, 12);
  expect(variance('heads-split') * 5).toBeLessThan(twin);
  expect(found('heads-split-always').rows[0].weights[0]).toBeLessThan(0.9);
});

test('hand-made layers', () => {
  const token = (id: string, i: number): number[] => presetOf(id).plane.keys[i];
  const made = found('self-construct');
  expect(away(made.rows[0].output, token('self-construct', 1))).toBeLessThan(0.02);
  expect(Math.hypot(...found('self-construct-typo').rows[0].output)).toBeLessThan(0.05);
  const scaled = found('self-construct-scale').rows[0].output;
  expect(Math.hypot(...scaled) / Math.hypot(...made.rows[0].output)).toBeCloseTo(1.3, 6);
  const around = found('identity-and-permutation');
  around.rows.forEach((row, i) =>
    expect(away(row.output, token('identity-and-permutation', (i + 1) % 4))).toBeLessThan(0.02),
  );
  found('self-copy').rows.forEach((row, i) =>
    expect(away(row.output, token('self-copy', i))).toBeLessThan(0.02),
  );
  expect(away(found('self-add-b').output, token('self-add-b', 2))).toBeLessThan(0.02);
});

test('by content, by position, or both', () => {
  const shares = (query: number[]): number[] =>
    found('by-content-by-position', { query }).rows[0].weights.map((each) => Number(each.toFixed(2)));
  expect(shares([1, 0, 0, 0])).toEqual([0.5, 0.5, 0, 0]);
  expect(shares([0, 0, 0, 1])).toEqual([0.5, 0, 0.5, 0]);
  expect(shares([1, 0, 0, 1])).toEqual([1, 0, 0, 0]);
});

test('one head stays within its values', () => {
  const [a, b, c] = presetOf('convolution-one-head').plane.values;
  const side = (p: number[], q: number[], r: number[]): number =>
    Math.sign((q[0] - p[0]) * (r[1] - p[1]) - (q[1] - p[1]) * (r[0] - p[0]));
  const within = (x: number[]): boolean =>
    [side(a, b, x), side(b, c, x), side(c, a, x)].every((each) => each <= 0);
  for (let turn = 0; turn < 24; turn += 1) {
    const query = [2.4 * Math.cos(turn), 2.4 * Math.sin(turn)];
    const { output } = found('convolution-one-head', { queries: [query], beta: 0.5 + turn });
    expect(within(output.map((x, i) => 0.999 * x + 0.0005 * (a[i] + c[i])))).toBe(true);
  }
  expect(within(b.map((x, i) => 2 * x - a[i]))).toBe(false);
});

test('a network without bias', () => {
  const { weights } = found('two-layer-network', { queries: [[0, 0]] }).rows[0];
  for (const each of weights) expect(each).toBeCloseTo(1 / weights.length, 12);
});

test('a key moves every output, a query its own, by more', () => {
  const start = presetOf('perturb-compare').plane;
  const moved = (some: Partial<Plane>): number[] => {
    const [before, after] = [evaluate(start), evaluate({ ...start, ...some })];
    return after.rows.map((row, i) => away(row.output, before.rows[i].output));
  };
  const further = (list: number[][]): number[][] => [[list[0][0], list[0][1] + 0.2], ...list.slice(1)];
  const [key, query] = [moved({ keys: further(start.keys) }), moved({ queries: further(start.queries) })];
  expect(Math.min(...key)).toBeGreaterThan(0.001);
  expect(query[0]).toBeGreaterThan(key[0]);
  expect(query.slice(1)).toEqual([0, 0]);
});

test('masks', () => {
  const sum = (weights: number[]): number => weights.reduce((total, each) => total + each, 0);
  const before = found('mask-minus-infinity').rows[0].weights;
  const after = found('mask-minus-infinity', { how: 'after' }).rows[0].weights;
  expect([before[0], after[0]]).toEqual([0, 0]);
  expect(sum(before)).toBeCloseTo(1, 12);
  expect(sum(after)).toBeLessThan(0.7);
  for (const row of found('rows-sum-to-one').rows) expect(sum(row.weights)).toBeCloseTo(1, 12);
  expect(found('rows-sum-to-one').rows[0].weights.slice(1)).toEqual([0, 0, 0, 0]);
});

test('the mean output under noise is not the output without it', () => {
  const noisy = found('perturb-key-mean');
  expect(away(noisy.spread!.mean, noisy.output)).toBeGreaterThan(0.1);
});

test('samples: more of them, or another key, leave the others as they are', () => {
  const some = found('noise-radial', { samples: 10 });
  const more = found('noise-radial', { samples: 20 });
  expect(more.outputs.slice(0, 10)).toEqual(some.outputs);
  const larger = evaluate({ ...resized(presetOf('noise-radial').plane, 5), samples: 10 });
  expect(larger.clouds.slice(0, 4)).toEqual(some.clouds);
  expect(found('noise-radial', { radial: 0, isotropic: 0 }).outputs).toEqual([]);
});
