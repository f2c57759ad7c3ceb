import { describe, expect, it } from 'vitest';
import { cachedDrawing } from './drawing-cache';
import type { Drawing, Frame, View } from './view';
import {
  ArrayBlocks,
  loadFrame,
  makeLayer,
  openCapture,
  makeSequence,
  randomWeights,
  makeSide,
} from '../../test-support/view-captures';
import { VIEWS } from './views/index';

async function makeFrame(): Promise<Frame> {
  const blocks = new ArrayBlocks();
  const layer = makeLayer(blocks, [1, 3, 3], randomWeights(1, 3, 3, 1));
  return loadFrame(
    VIEWS[0],
    openCapture(blocks, [makeSide(blocks, [makeSequence('text', ['a', 'b', 'c'])], [layer])]),
  );
}

function countDraws(view: View): { view: View; drawCount: () => number } {
  let count = 0;
  const draw = (frame: Frame): Drawing => {
    count += 1;
    return view.draw(frame);
  };
  return { view: { ...view, draw }, drawCount: () => count };
}

describe('the drawing cache', () => {
  it('keeps one drawing for each set of choices and each size', async () => {
    const frame = await makeFrame();
    const { view, drawCount } = countDraws(VIEWS[0]);
    const first = cachedDrawing(view, frame);
    expect(cachedDrawing(view, { ...frame, choices: { ...frame.choices } })).toBe(first);
    expect(drawCount()).toBe(1);
    cachedDrawing(view, { ...frame, choices: { ...frame.choices, scale: 'log' } });
    cachedDrawing(view, { ...frame, width: 500 });
    expect(drawCount()).toBe(3);
  });

  it('drops the drawings that were not used for the longest time', async () => {
    const frame = await makeFrame();
    const { view, drawCount } = countDraws(VIEWS[0]);
    for (let width = 400; width < 450; width += 1) {
      cachedDrawing(view, { ...frame, width: 399 }); // used in every round
      cachedDrawing(view, { ...frame, width });
    }
    expect(drawCount()).toBe(51);
    cachedDrawing(view, { ...frame, width: 400 });
    expect(drawCount()).toBe(52);
  });

  it('is separate for each capture', async () => {
    const { view, drawCount } = countDraws(VIEWS[0]);
    cachedDrawing(view, await makeFrame());
    cachedDrawing(view, await makeFrame());
    expect(drawCount()).toBe(2);
  });
});
