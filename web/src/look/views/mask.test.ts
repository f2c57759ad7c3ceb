import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Capture } from '../capture';
import type { LayerInfo } from '../capture-format';
import { ArrayBlocks, loadFrame, makeLayer, openCapture, layoutProblems, makeSequence, makeSide,
  drawingTexts } from '../../../test-support/view-captures';
import { mask } from './mask';
import { maskFacts, permission, ranges } from './mask-facts';

type Allowed = (query: number, key: number) => boolean;

const table = (T: number, S: number, isAllowed: Allowed): Float32Array => (
  Float32Array.from({ length: T * S }, (_, i) => Number(isAllowed(Math.floor(i / S), i % S))));

const sentence = (T: number, S: number, isAllowed: Allowed, aligned = true): string => (
  maskFacts(table(T, S, isAllowed), T, S, aligned).sentence);

function capture(T: number, S: number, may: Allowed | null,
  layerOptions: Partial<LayerInfo>[] = [{}]): Capture {
  const blocks = new ArrayBlocks();
  const names = (size: number, letter: string): string[] => (
    Array.from({ length: size }, (_, i) => `${letter}${i}`));
  const sequences = [makeSequence('t', names(T, 't')), makeSequence('s', names(S, 's'))];
  const layers = layerOptions.map((each) => makeLayer(blocks, [1, T, S], new Float32Array(T * S), {
    keys: T === S ? 0 : 1, mask: may === null ? null : 0, ...each }));
  const allowed = blocks.bytes([T, S], table(T, S, may ?? (() => true)));
  const masks = may === null ? [] : [{ causal: true, allowed }];
  return openCapture(blocks, [makeSide(blocks, sequences, layers, { masks })]);
}

const causal: Allowed = (query, key) => key <= query;

describe('the description of a mask', () => {
  const CAUSAL = 'Causal: a token may attend to itself and to earlier tokens';
  it.each<[string, number, number, Allowed, string]>([
    ['everything', 3, 3, () => true, 'Every query may attend to every key.'],
    ['a triangle', 5, 5, causal, `${CAUSAL}.`],
    ['a triangle behind a cache', 2, 5, (t, s) => s <= t + 3, `${CAUSAL}.`],
    ['a causal window', 7, 7, (t, s) => s <= t && t - s < 3,
      'Causal window: a token may attend to itself and 2 tokens back.'],
    ['a window', 7, 7, (t, s) => t - s <= 2 && s - t <= 1,
      'Window: a token may attend to itself, 2 tokens back and 1 token ahead.'],
    ['the diagonal', 4, 4, (t, s) => t === s, 'Each token may attend only to itself.'],
    ['padding', 5, 5, (_, s) => s < 3,
      'Every query may attend to every key, except 2 padding keys.'],
    ['padding before', 5, 5, (t, s) => s > 0 && s <= t, `${CAUSAL}, except 1 padding key.`],
    ['nothing', 2, 3, () => false, 'No query may attend to any key.'],
    ['blocks', 6, 6, (t, s) => s <= t && Math.floor(s / 3) === Math.floor(t / 3),
      'Causal, with further restrictions that have no simple shape.'],
    ['a chessboard', 6, 6, (t, s) => (t + s) % 2 === 0,
      'The mask has no simple shape.'],
  ])('of %s', (_, T, S, may, expected) => {
    expect(sentence(T, S, may)).toBe(expected);
  });

  it('has no order between two different texts', () => {
    expect(sentence(5, 5, causal, false)).toBe('The mask has no simple shape.');
  });
});

// "0–2, 5": 0, 1, 2 and 5.
const numbers = (text: string): Set<number> => new Set(
  text.split(', ').filter((part) => part !== '').flatMap((part) => {
    const [first, last = first] = part.split('–').map(Number);
    return Array.from({ length: last - first + 1 }, (_, i) => first + i);
  }));

describe('the facts of a mask', () => {
  it('agree with counting, and ranges list every allowed key', () => {
    const size = fc.integer({ min: 1, max: 9 });
    const masks = fc.infiniteStream(fc.boolean());
    fc.assert(fc.property(size, size, masks, fc.boolean(), (T, S, coins, aligned) => {
      const values = table(T, S, () => coins.next().value as boolean);
      const facts = maskFacts(values, T, S, aligned);
      expect(facts.allowed).toBe(values.reduce((sum, value) => sum + value, 0));
      for (let key = 0; key < S; key++) {
        const column = Array.from({ length: T }, (_, query) => values[query * S + key]);
        expect(Boolean(facts.padding[key])).toBe(column.every((value) => value === 0));
      }
      for (let query = 0; query < T; query++) {
        const keys = numbers(ranges(values, facts, query));
        expect(keys.size).toBe(facts.perQuery[query]);
        for (let key = 0; key < S; key++) {
          expect(permission(values, facts, query, key) === 'allowed').toBe(keys.has(key));
        }
      }
    }));
  });

  it('are computed once for a mask', () => {
    const values = table(4, 4, causal);
    expect(maskFacts(values, 4, 4, true)).toBe(maskFacts(values, 4, 4, true));
    expect(maskFacts(values, 4, 4, true)).not.toBe(maskFacts(values, 4, 4, false));
  });
});

describe('the mask view', () => {
  it('shows count and percentage, and the state of each cell not by color alone', async () => {
    const file = capture(5, 5, (t, s) => s <= t && s > 0);
    const drawing = mask.draw(await loadFrame(mask, file));
    expect(drawing.summary).toBe('Layer 0, mask: Causal: a token may attend to itself and to earlier '
      + 'tokens, except 1 padding key. 10 of 25 pairs allowed, 40%.');
    const lines = drawing.marks.flatMap((mark) => (mark.kind === 'lines' ? [mark] : []));
    const [dashes, crosses] = [lines[lines.length - 2], lines[lines.length - 1]];
    expect(dashes.opacities).toHaveLength(10); // one for each pair that is forbidden
    expect(crosses.opacities).toHaveLength(2 * 5); // two for each pair with padding
    const words = ['allowed', 'masked', 'padding: masked for every query'];
    expect(drawingTexts(drawing)).toEqual(expect.arrayContaining(words));
  });

  it('works without a mask', async () => {
    const file = capture(3, 4, null);
    const frame = await loadFrame(mask, file);
    const drawing = mask.draw(frame);
    expect(mask.needs(file, frame.choices)).toEqual([]);
    expect(drawing.summary).toContain('Every query may attend to every key.');
    expect(drawing.summary).toContain('12 of 12 pairs allowed, 100%.');
    expect(drawingTexts(drawing)).not.toContain('masked');
    expect(mask.table(frame).rows).toEqual([0, 1, 2].map((i) => [i, `t${i}`, 4, 1, '0–3']));
    expect(layoutProblems(drawing)).toEqual([]);
  });

  it('finds the cell under the pointer, with and without zoom', async () => {
    const file = capture(6, 6, causal);
    for (const zoom of [null, [2, 4, 1, 3]] as const) {
      const drawing = mask.draw(await loadFrame(mask, file, { zoom: zoom && [...zoom] }));
      const { x, y, w, h, window } = drawing.zoom!;
      expect(window).toEqual(zoom ?? [0, 5, 0, 5]);
      const across = w / (window[3] - window[2] + 1);
      const down = h / (window[1] - window[0] + 1);
      for (let query = window[0]; query <= window[1]; query++) {
        for (let key = window[2]; key <= window[3]; key++) {
          const left = x + (key - window[2] + 0.5) * across;
          const target = drawing.targetAt!(left, y + (query - window[0] + 0.5) * down);
          expect(target?.pick).toEqual({ queries: [query], key });
          expect(target?.tooltip?.()[2]).toBe(key <= query ? 'allowed' : 'masked');
        }
      }
      expect(drawing.targetAt!(x - 1, y + 1)).toBeNull();
      expect(drawing.targetAt!(x + w + 1, y + 1)).toBeNull();
    }
  });

  it('shows tokens, distance and padding in tooltips', async () => {
    const drawing = mask.draw(await loadFrame(mask, capture(4, 4, (t, s) => s <= t && s > 0)));
    const { x, y, w } = drawing.zoom!;
    const tip = (query: number, key: number): string[] | undefined => (
      drawing.targetAt!(x + (key + 0.5) * (w / 4), y + (query + 0.5) * (w / 4))?.tooltip?.());
    expect(tip(2, 1)).toEqual(['query 2 “t2”', 'key 1 “t1”', 'allowed', '1 token back']);
    expect(tip(1, 3)).toEqual(['query 1 “t1”', 'key 3 “t3”', 'masked', '2 tokens ahead']);
    expect(tip(0, 0)?.[2]).toContain('padding');
    expect(drawing.targets[2].tooltip?.()).toEqual([
      'query 2 “t2”', 'may attend to 2 of 4 keys', 'keys 1–2']);
  });

  it('paints 512 by 512 cells as one raster, once', async () => {
    const file = capture(512, 512, (t, s) => s <= t && t - s < 100 && s < 470);
    const drawing = mask.draw(await loadFrame(mask, file));
    const other = await loadFrame(mask, file, { queries: [3], key: 2 });
    const raster = drawing.marks.find((mark) => mark.kind === 'raster' && mark.rows === 512);
    expect(raster).toMatchObject({ columns: 512 });
    expect(mask.draw(other).marks).toContainEqual(raster);
    expect(drawing.marks.length).toBeLessThan(400);
    expect(drawing.targets.length).toBeLessThan(100);
    expect(drawing.height).toBeLessThanOrEqual(730);
    expect(layoutProblems(drawing)).toEqual([]);
  });

  it('has a button for each other mask', async () => {
    const file = capture(3, 3, causal, [{}, { mask: null }, {}, { mask: null }]);
    const drawing = mask.draw(await loadFrame(mask, file, { layer: 1 }));
    const buttons = drawing.targets.filter((target) => target.key?.startsWith('mask/of'));
    expect(buttons.map(({ label, pick }) => [label, pick])).toEqual([
      ['Mask 1 of 2: layers 0, 2', { layer: 0 }],
      ['Mask 2 of 2, displayed: layers 1, 3', { layer: 1 }]]);
    expect(mask.draw(await loadFrame(mask, capture(3, 3, causal))).targets).toHaveLength(3);
  });

  it('has a valid layout for any size and width', async () => {
    const size = fc.integer({ min: 1, max: 90 });
    const widths = fc.integer({ min: 320, max: 2560 });
    await fc.assert(fc.asyncProperty(size, size, widths, async (T, S, width) => {
      const file = capture(T, S, (t, s) => s <= t + 1 && s % 7 !== 3);
      expect(layoutProblems(mask.draw(await loadFrame(mask, file, {}, width)))).toEqual([]);
    }), { numRuns: 30 });
  });
});
