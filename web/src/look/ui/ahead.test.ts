import { describe, expect, it } from 'vitest';
import type { Choices } from '../choices';
import type { Frame } from '../view';
import { Blocks, framed, layer, opened, sequence, shares, side } from '../../../test-support/fake';
import { VIEWS } from '../views/index';
import { light, next } from './ahead';

const same = (choices: Choices): Choices => choices;

async function frameOf(tokens: number, choices: Partial<Choices>): Promise<Frame> {
  const blocks = new Blocks();
  const texts = Array.from({ length: tokens }, (_, i) => `w${i}`);
  const layers = [1, 2, 3].map((seed) =>
    layer(blocks, [1, tokens, tokens], shares(1, tokens, tokens, seed), { name: `layer.${seed}` }),
  );
  const capture = opened(blocks, [side(blocks, [sequence('text', texts)], layers)]);
  return framed(VIEWS[0], capture, { view: 'heads', ...choices });
}

describe('what may be asked for next', () => {
  it('is the layers beside this one, and every other view that can be shown', async () => {
    const frame = await frameOf(5, { layer: 1 });
    const found = next(frame, same).map(([view, choices]) => `${view.id} ${choices.layer}`);
    expect(found.slice(0, 2)).toEqual(['heads 2', 'heads 0']);
    expect(found).toContain('matrix 1');
    expect(found).not.toContain('heads 1');
    expect(found).not.toContain('compare 1'); // there is one side
  });

  it('ends with the first and the last layer', async () => {
    const found = next(await frameOf(5, { layer: 2 }), same).map(([, choices]) => choices.layer);
    expect(Math.max(...found)).toBe(2);
  });

  it('can be drawn once it is loaded', async () => {
    const frame = await frameOf(5, { layer: 1 });
    for (const [view, choices] of next(frame, same)) {
      const needs = view.needs(frame.opened, choices);
      await frame.opened.load(needs);
      expect(frame.opened.size(needs)).toBe(0);
      expect(view.draw({ ...frame, choices }).marks.length).toBeGreaterThan(0);
    }
  });

  it('is not drawn ahead where heads are large', async () => {
    expect(light(await frameOf(20, {}))).toBe(true);
    expect(light(await frameOf(800, {}))).toBe(false);
  });

  it('says how much is still to be opened', async () => {
    const frame = await frameOf(5, { layer: 1 });
    const needs = [{ side: 0, layer: 2, parts: ['weights' as const] }];
    expect(frame.opened.size(needs)).toBe(4 * 25 + 4 * 5); // weights and sums
    await frame.opened.load(needs);
    expect(frame.opened.size(needs)).toBe(0);
  });
});
