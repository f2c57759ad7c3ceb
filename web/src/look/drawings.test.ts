import { describe, expect, it } from 'vitest';
import { drawingOf } from './drawings';
import type { Drawing, Frame, View } from './view';
import { Blocks, framed, layer, opened, sequence, shares, side } from '../../test-support/fake';
import { VIEWS } from './views/index';

async function frameOf(): Promise<Frame> {
  const blocks = new Blocks();
  const one = layer(blocks, [1, 3, 3], shares(1, 3, 3, 1));
  return framed(VIEWS[0], opened(blocks, [side(blocks, [sequence('text', ['a', 'b', 'c'])], [one])]));
}

function counted(view: View): { view: View; drawn: () => number } {
  let times = 0;
  const draw = (frame: Frame): Drawing => {
    times += 1;
    return view.draw(frame);
  };
  return { view: { ...view, draw }, drawn: () => times };
}

describe('the last drawings', () => {
  it('are kept, each for its choices and its size', async () => {
    const frame = await frameOf();
    const { view, drawn } = counted(VIEWS[0]);
    const first = drawingOf(view, frame);
    expect(drawingOf(view, { ...frame, choices: { ...frame.choices } })).toBe(first);
    expect(drawn()).toBe(1);
    drawingOf(view, { ...frame, choices: { ...frame.choices, scale: 'log' } });
    drawingOf(view, { ...frame, width: 500 });
    expect(drawn()).toBe(3);
  });

  it('give way to newer ones', async () => {
    const frame = await frameOf();
    const { view, drawn } = counted(VIEWS[0]);
    for (let width = 400; width < 450; width += 1) {
      drawingOf(view, { ...frame, width: 399 }); // used all the time
      drawingOf(view, { ...frame, width });
    }
    expect(drawn()).toBe(51);
    drawingOf(view, { ...frame, width: 400 });
    expect(drawn()).toBe(52);
  });

  it('belong to their capture', async () => {
    const { view, drawn } = counted(VIEWS[0]);
    drawingOf(view, await frameOf());
    drawingOf(view, await frameOf());
    expect(drawn()).toBe(2);
  });
});
