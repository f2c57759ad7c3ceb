import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Capture } from '../capture';
import type { LayerInfo, Walkthrough } from '../capture-format';
import { DEFAULTS } from '../choices';
import { maskedSoftmax } from '../views/attention-scores';
import { walkthrough } from '../views/walkthrough';
import { ArrayBlocks, layoutProblems, loadFrame, makeLayer, makeSequence, makeSide, openCapture,
  pseudoRandom } from '../../../test-support/view-captures';
import { STAGES } from './stages';
import { listedKeys, readWalk, weightedSum, weightsAt } from './walk-data';

const [H, T, D, M, W] = [2, 5, 4, 3, 6];
const WORDS = ['the', 'cat', '<b>', 'sat', '.'];
const scale = 0.5;

// Causal softmax of random queries and keys, and the walkthrough of query 3 of head 1.
function make(changes: Partial<LayerInfo> = {}, walkChanges: Partial<Walkthrough> | null = {}): Capture {
  const blocks = new ArrayBlocks();
  const [q, k, v] = [H * T * D, H * T * D, H * T * M].map((n, i) => pseudoRandom(n, i + 2).map((x) => 2 * x));
  const allowed = Array.from({ length: T * T }, (_, i) => (i % T <= Math.floor(i / T) ? 1 : 0));
  const dot = (h: number, t: number, s: number): number => {
    let sum = 0;
    for (let d = 0; d < D; d += 1) sum += q[(h * T + t) * D + d] * k[(h * T + s) * D + d];
    return sum;
  };
  const weights = new Float32Array(H * T * T);
  for (let h = 0; h < H; h += 1)
    for (let t = 0; t < T; t += 1) {
      const scores = Float64Array.from({ length: T }, (_, s) => dot(h, t, s) * scale);
      weights.set(maskedSoftmax(scores, Uint8Array.from(allowed.slice(t * T, (t + 1) * T))), (h * T + t) * T);
    }
  const layer = makeLayer(blocks, [H, T, T], weights, { scale, mask: 0, ...changes });
  const rows = (values: Float32Array, size: number): number[] =>
    [0, 1].flatMap((h) => [...values.slice((h * T + 3) * size, (h * T + 4) * size)]);
  const walk: Walkthrough = {
    layer: 0, query: 3, head: 1, block: 0, blocks: 2, rotary: false, norm_first: true,
    embedding: blocks.floats([W], pseudoRandom(W, 9)), input: blocks.floats([W], pseudoRandom(W, 9)),
    q: blocks.floats([H, D], rows(q, D)),
    dots: blocks.floats([H, T], [0, 1].flatMap((h) => WORDS.map((_, s) => dot(h, 3, s)))),
    bias: null, key_heads: [1], k: blocks.floats([1, T, D], k.slice(T * D)),
    v: blocks.floats([1, T, M], v.slice(T * M)), outputs: blocks.floats([H, M], pseudoRandom(H * M, 4)),
    parts: ['self', 'feed_forward'], added: blocks.floats([2, W], pseudoRandom(2 * W, 5)),
    hidden: blocks.floats([7], pseudoRandom(7, 6)), stream: blocks.floats([W], pseudoRandom(W, 8)),
    top: [['x', 2, 0.75], ['</script>', 1, 0.25]], reasons: {}, ...walkChanges,
  };
  return openCapture(blocks, [makeSide(blocks, [makeSequence('text', WORDS)], [layer], {
    masks: [{ causal: true, allowed: blocks.bytes([T, T], allowed) }],
    walkthrough: walkChanges === null ? null : walk,
  })]);
}

async function read(capture: Capture, choices = {}) {
  const all = { ...DEFAULTS, view: 'walkthrough', ...choices };
  await capture.load(walkthrough.needs(capture, all));
  return readWalk(capture, all);
}

describe('the path of a token', () => {
  it('is the recorded one if nothing is selected, and its scores explain the weights', async () => {
    const walk = await read(make());
    expect([walk.query, walk.head]).toEqual([3, 1]);
    expect(walk.explained).toBe(true);
    const again = maskedSoftmax(walk.scores as Float64Array, walk.allowed);
    again.forEach((x, key) => expect(x).toBeCloseTo(walk.weights[key], 5));
    expect(walk.valueVector(2)?.length).toBe(M);
    expect(walk.parts.map(({ kind }) => kind)).toEqual(['self', 'feed_forward']);
    expect(STAGES.map((stage) => stage.missing(walk))).toEqual(STAGES.map(() => null));
  });

  it('of another token or without a record has weights, and says what is missing', async () => {
    for (const walk of [await read(make(), { queries: [1] }), await read(make({}, null))]) {
      expect(walk.recorded).toBe(null);
      expect(walk.weights.length).toBe(T);
      const missing = STAGES.filter((stage) => stage.missing(walk) !== null).map(({ id }) => id);
      expect(missing).toEqual(['embedding', 'vectors', 'scores', 'heads', 'feed', 'logits']);
    }
  });

  it('has two sentences and a formula in every step, for any mechanism and place', async () => {
    for (const changes of [{}, { mechanism: 'favor', scale: null }, { mechanism: 'gla', signed: true, normalised: false }])
      for (const choices of [{}, { queries: [0] }, { heads: [0] }, { queries: [4], key: 0 }])
        for (const record of [{}, null, { parts: [], added: null, reasons: { parts: 'why' } }]) {
          const walk = await read(make(changes, record), choices);
          for (const stage of STAGES)
            for (const temperature of [1, 0.25]) {
              const sentences = stage.sentences(walk, temperature);
              expect(sentences.length).toBe(2);
              for (const each of sentences) expect(each).toMatch(/^[^<].*[^.]\.$/u);
              expect(sentences.join(' ')).not.toMatch(/NaN|undefined|null/);
              expect(stage.formula(walk, temperature)).toBeTruthy();
            }
        }
  });

  it('has a figure and a table', async () => {
    const frame = await loadFrame(walkthrough, make(), { view: 'walkthrough', temperature: 0.5 });
    expect(layoutProblems(walkthrough.draw(frame))).toEqual([]);
    const { header, rows } = walkthrough.table(frame);
    expect(rows.length).toBe(T);
    const sum = rows.reduce((total, row) => total + Number(row[header.indexOf('weight at temperature')]), 0);
    expect(sum).toBeCloseTo(1, 5);
  });
});

describe('temperature', () => {
  it('is a softmax of scores over it, from scores or from weights alone', async () => {
    const [full, bare] = [await read(make()), await read(make({}, null), { heads: [1], queries: [3] })];
    fc.assert(fc.property(fc.double({ min: 0.2, max: 8, noNaN: true }), (temperature) => {
      const expected = maskedSoftmax((full.scores as Float64Array).map((x) => x / temperature), full.allowed);
      for (const walk of [full, bare]) {
        const weights = weightsAt(walk, temperature) as ArrayLike<number>;
        expected.forEach((x, key) => expect(weights[key]).toBeCloseTo(x, 4));
        expect(weights[4]).toBe(0); // masked
      }
    }));
    expect(weightsAt(full, 1)).toBe(full.weights); // the model's own numbers
  });

  it('does not exist for other mechanisms', async () => {
    expect(weightsAt(await read(make({ mechanism: 'favor' })), 2)).toBe(null);
  });
});

describe('the keys that are listed', () => {
  it('are all of a short text, and else few in the order of the text, with the one in detail', async () => {
    const walk = await read(make(), { key: 2 });
    expect(listedKeys(walk)).toEqual([0, 1, 2, 3, 4]);
    const few = listedKeys(walk, 3);
    expect(few).toEqual([...few].sort((a, b) => a - b));
    expect(few).toContain(2);
    expect(few).toContain(3); // its own
  });
});

it('a weighted sum is the product of weights and rows', () => {
  expect([...weightedSum([0.5, 2], Float32Array.of(1, 2, 3, 10, 20, 30))]).toEqual([20.5, 41, 61.5]);
});
