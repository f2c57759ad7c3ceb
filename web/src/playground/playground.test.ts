import { expect, test } from 'vitest';
import { evaluatePlane, withKeyCount, withHeadCount, type Plane } from './plane-attention';
import { PRESETS, type Preset } from './presets';
import { parseFragment, findPreset, formatFragment } from './page-state';

const evaluatePreset = (id: string, changes: Partial<Plane> = {}) =>
  evaluatePlane({ ...findPreset(id).plane, ...changes });
const distance = (one: number[], other: number[]): number =>
  Math.hypot(one[0] - other[0], one[1] - other[1]);

test('presets are distinct, and each describes what to try in two sentences', () => {
  expect(new Set(PRESETS.map((each) => each.id)).size).toBe(PRESETS.length);
  for (const preset of PRESETS) {
    expect(preset.text.match(/[.](?= |$)/g)?.length, preset.id).toBe(2);
    const n = preset.plane.keys.length;
    for (const list of [preset.plane.noisy, preset.plane.allowed]) expect(list).toHaveLength(n);
    expect(preset.plane.values).toHaveLength(n);
  }
});

test.each(PRESETS)('the address stores $id, and changes to it', (preset: Preset) => {
  const state = { ...parseFragment(''), preset: preset.id, plane: preset.plane };
  expect(parseFragment(formatFragment(state))).toEqual(state);
  const plane: Plane = {
    ...withHeadCount(withKeyCount(preset.plane, 6), 3),
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
  expect(parseFragment(formatFragment(changed))).toEqual(changed);
});

test('invalid values in an address are ignored', () => {
  const bad =
    'preset=__proto__&keys=1,2;x,3&beta=1e999&samples=-3&allowed=1;1&panel=no&f-d=1e9&p-t=a' +
    '&how=%ff&query=1;2;3&asking=99';
  expect(parseFragment(bad)).toEqual(parseFragment(''));
  expect(parseFragment('keys=1e9,0').plane.keys).toEqual(parseFragment('').plane.keys);
});

// The following tests check that the descriptions of the presets are true.
test('copy and average', () => {
  const copy = evaluatePreset('copy');
  expect(distance(copy.output, copy.values[0])).toBeLessThan(0.02);
  expect(copy.rows[0].weights[0]).toBeGreaterThan(0.99);
  const two = evaluatePreset('average-two');
  const middle = two.values[0].map((x, i) => (x + two.values[1][i]) / 2);
  expect(distance(two.output, middle)).toBeLessThan(0.02);
  expect(evaluatePreset('longer-key-wins').rows[0].weights[0]).toBeLessThan(1e-6);
  expect(evaluatePreset('key-scaled').rows[0].weights[2]).toBeGreaterThan(0.9);
});

test('different heads vary far less than one head, identical heads exactly as much', () => {
  const variance = (id: string, changes: Partial<Plane> = {}): number =>
    evaluatePreset(id, { samples: 500, ...changes }).spread?.variance ?? NaN;
  const identical = variance('heads-identical');
  const single = variance('heads-identical', { queries: [[1, 1]] });
  expect(identical).toBeCloseTo(single, 12);
  expect(variance('heads-split') * 5).toBeLessThan(identical);
  expect(evaluatePreset('heads-split-always').rows[0].weights[0]).toBeLessThan(0.9);
});

test('hand-made layers', () => {
  const token = (id: string, i: number): number[] => findPreset(id).plane.keys[i];
  // the claims are about c_2, so token 2 is the one whose output the scene shows
  const unitB = token('self-construct', 0);
  const outputOf = (id: string): number[] => {
    const { asking } = findPreset(id).plane;
    expect(asking).toBe(1);
    return evaluatePreset(id).output;
  };
  expect(distance(outputOf('self-construct'), unitB)).toBeLessThan(0.02);
  expect(distance(outputOf('self-construct-typo'), unitB)).toBeGreaterThan(1);
  expect(evaluatePreset('self-construct-typo').rows[1].weights[0]).toBeCloseTo(1 / 3, 6);
  const scaled = unitB.map((x) => Math.hypot(...unitB) * x);
  expect(distance(outputOf('self-construct-scale'), scaled)).toBeLessThan(0.02);
  const around = evaluatePreset('identity-and-permutation');
  around.rows.forEach((row, i) =>
    expect(distance(row.output, token('identity-and-permutation', (i + 1) % 4))).toBeLessThan(0.02),
  );
  evaluatePreset('self-copy').rows.forEach((row, i) =>
    expect(distance(row.output, token('self-copy', i))).toBeLessThan(0.02),
  );
  expect(distance(evaluatePreset('self-add-b').output, token('self-add-b', 2))).toBeLessThan(0.02);
});

test('by content, by position, or both', () => {
  const roundedWeights = (query: number[]): number[] =>
    evaluatePreset('by-content-by-position', { query }).rows[0].weights.map((each) =>
      Number(each.toFixed(2)),
    );
  expect(roundedWeights([1, 0, 0, 0])).toEqual([0.5, 0.5, 0, 0]);
  expect(roundedWeights([0, 0, 0, 1])).toEqual([0.5, 0, 0.5, 0]);
  expect(roundedWeights([1, 0, 0, 1])).toEqual([1, 0, 0, 0]);
});

test('the output of one head stays within the triangle of its values', () => {
  const [a, b, c] = findPreset('convolution-one-head').plane.values;
  const orientation = (p: number[], q: number[], r: number[]): number =>
    Math.sign((q[0] - p[0]) * (r[1] - p[1]) - (q[1] - p[1]) * (r[0] - p[0]));
  const isInTriangle = (x: number[]): boolean =>
    [orientation(a, b, x), orientation(b, c, x), orientation(c, a, x)].every((each) => each <= 0);
  for (let turn = 0; turn < 24; turn += 1) {
    const query = [2.4 * Math.cos(turn), 2.4 * Math.sin(turn)];
    const { output } = evaluatePreset('convolution-one-head', {
      queries: [query],
      beta: 0.5 + turn,
    });
    expect(isInTriangle(output.map((x, i) => 0.999 * x + 0.0005 * (a[i] + c[i])))).toBe(true);
  }
  expect(isInTriangle(b.map((x, i) => 2 * x - a[i]))).toBe(false);
});

test('a zero query gives equal weights, as in a network without bias', () => {
  const { weights } = evaluatePreset('two-layer-network', { queries: [[0, 0]] }).rows[0];
  for (const each of weights) expect(each).toBeCloseTo(1 / weights.length, 12);
});

test('moving a key changes every output, moving a query changes only its own, by more', () => {
  const start = findPreset('perturb-compare').plane;
  const outputShifts = (changes: Partial<Plane>): number[] => {
    const [before, after] = [evaluatePlane(start), evaluatePlane({ ...start, ...changes })];
    return after.rows.map((row, i) => distance(row.output, before.rows[i].output));
  };
  const movedFirst = (list: number[][]): number[][] => [
    [list[0][0], list[0][1] + 0.2],
    ...list.slice(1),
  ];
  const [key, query] = [
    outputShifts({ keys: movedFirst(start.keys) }),
    outputShifts({ queries: movedFirst(start.queries) }),
  ];
  expect(Math.min(...key)).toBeGreaterThan(0.001);
  expect(query[0]).toBeGreaterThan(key[0]);
  expect(query.slice(1)).toEqual([0, 0]);
});

test('masks before and after the softmax', () => {
  const sum = (weights: number[]): number => weights.reduce((total, each) => total + each, 0);
  const before = evaluatePreset('mask-minus-infinity').rows[0].weights;
  const after = evaluatePreset('mask-minus-infinity', { how: 'after' }).rows[0].weights;
  expect([before[0], after[0]]).toEqual([0, 0]);
  expect(sum(before)).toBeCloseTo(1, 12);
  expect(sum(after)).toBeLessThan(0.7);
  for (const row of evaluatePreset('rows-sum-to-one').rows)
    expect(sum(row.weights)).toBeCloseTo(1, 12);
  expect(evaluatePreset('rows-sum-to-one').rows[0].weights.slice(1)).toEqual([0, 0, 0, 0]);
});

test('the mean output with noise differs from the output without noise', () => {
  const noisy = evaluatePreset('perturb-key-mean');
  expect(distance(noisy.spread!.mean, noisy.output)).toBeGreaterThan(0.1);
});

test('more samples or another key do not change the other samples', () => {
  const ten = evaluatePreset('noise-radial', { samples: 10 });
  const twenty = evaluatePreset('noise-radial', { samples: 20 });
  expect(twenty.noisyOutputs.slice(0, 10)).toEqual(ten.noisyOutputs);
  const larger = evaluatePlane({
    ...withKeyCount(findPreset('noise-radial').plane, 5),
    samples: 10,
  });
  expect(larger.noisyKeySamples.slice(0, 4)).toEqual(ten.noisyKeySamples);
  expect(evaluatePreset('noise-radial', { radial: 0, isotropic: 0 }).noisyOutputs).toEqual([]);
});
