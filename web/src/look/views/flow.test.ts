import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Opened } from '../capture';
import { DEFAULTS, type Choices } from '../choices';
import type { Flow, LayerInfo } from '../format';
import { Blocks, framed, layer, opened, problems, sequence, shares, side, texts } from '../../../test-support/fake';
import { flow } from './flow';
import { flowPlace } from './flowing';

interface Asked {
  words?: string[];
  special?: number[];
  layers?: number;
  info?: Partial<LayerInfo>;
  more?: Partial<Flow>;
}

const WORDS = ['[CLS]', 'a', 'dog', 'ran', '[SEP]'];

function capture({
  words = WORDS,
  special = [],
  layers = 3,
  info = {},
  more = {},
}: Asked = {}): Opened {
  const blocks = new Blocks();
  const size: [number, number, number] = [2, words.length, words.length];
  const map = (seed: number) => blocks.floats(size.slice(1), shares(1, size[1], size[2], seed));
  const all = Array.from({ length: layers }, (_, i) =>
    layer(blocks, size, shares(...size, i + 1), {
      norms: blocks.floats([2, words.length], new Float32Array(2 * words.length).fill(2)),
      ...info,
    }),
  );
  return opened(blocks, [
    side(blocks, [sequence('text', words, special)], all, {
      flow: {
        rollout: all.map((_, i) => map(50 + i)),
        gradient: null,
        target: '',
        reasons: { gradient: 'No gradients were captured; capture with gradients to see it.' },
        layers: all.map((_, i) => i),
        ...more,
      },
    }),
  ]);
}

const gets = (one: Opened, row: number): string[] => {
  const ref = one.header.sides[0].flow.rollout?.[2];
  const values = ref ? one.values(ref) : new Float32Array();
  const wide = ref?.shape[1] ?? 0;
  return Array.from(values.slice(row * wide, (row + 1) * wide), (value) => value.toFixed(4));
};

const draws = async (one: Opened, choices: Partial<Choices>) =>
  flow.draw(await framed(flow, one, { layer: 2, ...choices }));

describe('flow', () => {
  it('says in full why it is missing, and what there is instead', () => {
    const reason =
      'Weights of block.0 (fourier) can be negative, so they are no shares.';
    const why = flow.missing(capture(), { ...DEFAULTS, flow: 'gradient' });
    expect(why).toContain('No gradients were captured; capture with gradients to see it.');
    expect(why).toContain('Rollout is there: choose it under Flow.');
    const neither = capture({
      more: { rollout: null, reasons: { rollout: reason, gradient: 'No gradient.' } },
    });
    expect(flow.missing(neither, DEFAULTS)).toBe(
      `Rollout cannot be shown. ${reason} Gradient-weighted attention neither: No gradient.`,
    );
    expect(flow.missing(capture(), DEFAULTS)).toBeNull();
    expect(flow.needs(neither, DEFAULTS)).toEqual([]);
  });

  it('asks for the class token, of a decoder for the last, or for all', async () => {
    const encoder = capture({ special: [0, 4] });
    const first = await draws(encoder, {});
    expect(problems(first)).toEqual([]);
    expect(
      first.targets.slice(0, 5).map(({ label }) => label.split(' gets ')[1].replace(', asks', '')),
    ).toEqual(gets(encoder, 0));
    expect(first.summary).toContain('Rollout up to layer 2: the first token “[CLS]” draws most on');
    const decoder = capture({ info: { stack: 'decoder' } });
    expect((await draws(decoder, {})).targets[3].label).toContain(gets(decoder, 4)[3]);
    const plain = capture();
    const drawing = await draws(plain, {});
    const mean = [0, 1, 2, 3, 4].reduce((sum, row) => sum + Number(gets(plain, row)[1]), 0) / 5;
    expect(Number(drawing.targets[1].label.split(' gets ')[1])).toBeCloseTo(mean, 3);
  });

  it('sums what several chosen tokens get', async () => {
    const one = capture();
    const drawing = await draws(one, { queries: [1, 3] });
    const wanted = Number(gets(one, 1)[2]) + Number(gets(one, 3)[2]);
    expect(Number(drawing.targets[2].label.split(' gets ')[1])).toBeCloseTo(wanted, 3);
    expect(drawing.targets[1].label).toContain(', asks');
    expect(drawing.targets[2].pick).toEqual({ queries: [2] });
    expect(texts(drawing).join(' ')).toContain('2 tokens together (summed)');
  });

  it('shows the layer alone beside it, with lengths of values where asked', async () => {
    const frame = await framed(flow, capture(), {
      layer: 1,
      heads: [1],
      queries: [2],
      weighting: 'norms',
    });
    const drawing = flow.draw(frame);
    const alone = drawing.targets.filter(({ key }) => key?.startsWith('flow/alone/'));
    const row = frame.opened.weights(0, 1).row(1, 2);
    alone.forEach(({ label }, i) => expect(label).toContain((2 * row[i]).toFixed(4)));
    expect(texts(drawing).join(' ')).toContain(
      'Layer 1 alone, head 1, times the length of the value',
    );
    expect(flow.table(frame).header[3]).toBe(
      'Layer 1 alone, head 1, times the length of the value',
    );
    expect(flow.table(frame).rows[3][3]).toBeCloseTo(2 * row[3], 6);
  });

  it('takes the map of the last layer before one that has none', () => {
    const one = capture({ layers: 7, more: { layers: [1, 3, 5], rollout: null } });
    const { flow: maps, ...rest } = one.header.sides[0];
    const { rollout } = capture({ layers: 3 }).header.sides[0].flow;
    const placed = (chosen: number): number =>
      flowPlace({ ...rest, flow: { ...maps, rollout } }, 'rollout', chosen);
    expect([0, 1, 2, 3, 4, 5, 6].map(placed)).toEqual([0, 0, 0, 1, 1, 2, 2]);
    expect(flowPlace(one.header.sides[0], 'gradient', 3)).toBe(-1);
  });

  it('finds cells of the matrix, and a click chooses their row', async () => {
    const drawing = await draws(capture(), {});
    const raster = drawing.marks.find((mark) => mark.kind === 'raster' && mark.rows === 5);
    if (raster?.kind !== 'raster') throw new Error('no matrix');
    const cell = drawing.at?.(raster.x + raster.w * 0.5, raster.y + raster.h * 0.7);
    expect(cell?.pick).toEqual({ queries: [3] });
    expect(cell?.label).toMatch(/^“ran” from “dog”: 0\.\d+/);
  });

  it('merges words, hides sinks, and keeps its place at any width and length', async () => {
    const size = fc.record({
      tokens: fc.integer({ min: 1, max: 40 }),
      width: fc.integer({ min: 320, max: 2560 }),
      words: fc.boolean(),
      hide: fc.boolean(),
      queries: fc.uniqueArray(fc.nat(39), { maxLength: 4 }),
    });
    await fc.assert(
      fc.asyncProperty(size, async ({ tokens, width, words, hide, queries }) => {
        const one = capture({
          words: Array.from({ length: tokens }, (_, i) => `t${i}`),
          special: [0],
        });
        one.header.sides[0].sequences[0].tokens.forEach((token, i) => {
          token.word = Math.floor(i / 2);
        });
        const frame = await framed(
          flow,
          one,
          {
            layer: 2,
            words,
            first: hide ? 'renormalize' : 'show',
            queries: queries.filter((each) => each < tokens),
          },
          width,
        );
        expect(problems(flow.draw(frame))).toEqual([]);
      }),
      { numRuns: 25 },
    );
  });
});
