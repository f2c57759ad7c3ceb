import { describe, expect, it } from 'vitest';
import type { Choices } from '../choices';
import type { Frame } from '../view';
import {
  ArrayBlocks,
  loadFrame,
  makeLayer,
  openCapture,
  makeSequence,
  randomWeights,
  makeSide,
} from '../../../test-support/view-captures';
import { VIEWS } from '../views/index';
import { isSmallEnough, likelyNext } from './prefetch';

const unchanged = (choices: Choices): Choices => choices;

async function makeFrame(tokens: number, choices: Partial<Choices>): Promise<Frame> {
  const blocks = new ArrayBlocks();
  const texts = Array.from({ length: tokens }, (_, i) => `w${i}`);
  const layers = [1, 2, 3].map((seed) =>
    makeLayer(blocks, [1, tokens, tokens], randomWeights(1, tokens, tokens, seed), {
      name: `layer.${seed}`,
    }),
  );
  const capture = openCapture(blocks, [makeSide(blocks, [makeSequence('text', texts)], layers)]);
  return loadFrame(VIEWS[0], capture, { view: 'heads', ...choices });
}

describe('prefetching', () => {
  it('covers the neighboring layers and every other available view', async () => {
    const frame = await makeFrame(5, { layer: 1 });
    const views = likelyNext(frame, unchanged).map(
      ([view, choices]) => `${view.id} ${choices.layer}`,
    );
    expect(views.slice(0, 2)).toEqual(['heads 2', 'heads 0']);
    expect(views).toContain('matrix 1');
    expect(views).not.toContain('heads 1');
    expect(views).not.toContain('compare 1'); // the capture has one side
  });

  it('stops at the first and the last layer', async () => {
    const layers = likelyNext(await makeFrame(5, { layer: 2 }), unchanged).map(
      ([, choices]) => choices.layer,
    );
    expect(Math.max(...layers)).toBe(2);
  });

  it('loads all that the prefetched views need', async () => {
    const frame = await makeFrame(5, { layer: 1 });
    for (const [view, choices] of likelyNext(frame, unchanged)) {
      const needs = view.needs(frame.capture, choices);
      await frame.capture.load(needs);
      expect(frame.capture.bytesToLoad(needs)).toBe(0);
      expect(view.draw({ ...frame, choices }).marks.length).toBeGreaterThan(0);
    }
  });

  it('draws only small heads', async () => {
    expect(isSmallEnough(await makeFrame(20, {}))).toBe(true);
    expect(isSmallEnough(await makeFrame(800, {}))).toBe(false);
  });

  it('knows how many bytes are still to be loaded', async () => {
    const frame = await makeFrame(5, { layer: 1 });
    const needs = [{ side: 0, layer: 2, parts: ['weights' as const] }];
    expect(frame.capture.bytesToLoad(needs)).toBe(4 * 25 + 4 * 5); // weights and sums
    await frame.capture.load(needs);
    expect(frame.capture.bytesToLoad(needs)).toBe(0);
  });
});
