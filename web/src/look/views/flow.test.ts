import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Capture } from '../capture';
import { DEFAULTS, type Choices } from '../choices';
import type { Flow, LayerInfo } from '../capture-format';
import {
  ArrayBlocks,
  loadFrame,
  makeLayer,
  openCapture,
  layoutProblems,
  makeSequence,
  randomWeights,
  makeSide,
  drawingTexts,
} from '../../../test-support/view-captures';
import { flow } from './flow';
import { flowMapIndex } from './flow-data';

interface CaptureOptions {
  words?: string[];
  special?: number[];
  layers?: number;
  info?: Partial<LayerInfo>;
  flowFields?: Partial<Flow>;
}

const WORDS = ['[CLS]', 'a', 'dog', 'ran', '[SEP]'];

function capture({
  words = WORDS,
  special = [],
  layers = 3,
  info = {},
  flowFields = {},
}: CaptureOptions = {}): Capture {
  const blocks = new ArrayBlocks();
  const size: [number, number, number] = [2, words.length, words.length];
  const map = (seed: number) =>
    blocks.floats(size.slice(1), randomWeights(1, size[1], size[2], seed));
  const all = Array.from({ length: layers }, (_, i) =>
    makeLayer(blocks, size, randomWeights(...size, i + 1), {
      norms: blocks.floats([2, words.length], new Float32Array(2 * words.length).fill(2)),
      ...info,
    }),
  );
  return openCapture(blocks, [
    makeSide(blocks, [makeSequence('text', words, special)], all, {
      flow: {
        rollout: all.map((_, i) => map(50 + i)),
        gradient: null,
        target: '',
        reasons: { gradient: 'No gradients were captured; capture with gradients to see it.' },
        layers: all.map((_, i) => i),
        ...flowFields,
      },
    }),
  ]);
}

const flowRowTexts = (one: Capture, row: number): string[] => {
  const ref = one.header.sides[0].flow.rollout?.[2];
  const values = ref ? one.values(ref) : new Float32Array();
  const width = ref?.shape[1] ?? 0;
  return Array.from(values.slice(row * width, (row + 1) * width), (value) => value.toFixed(4));
};

const drawFlow = async (one: Capture, choices: Partial<Choices>) =>
  flow.draw(await loadFrame(flow, one, { layer: 2, ...choices }));

describe('flow', () => {
  it('explains why it is missing, and what is available instead', () => {
    const reason = 'Weights of block.0 (fourier) can be negative, so they are no shares.';
    const why = flow.missingReason(capture(), { ...DEFAULTS, flow: 'gradient' });
    expect(why).toContain('No gradients were captured; capture with gradients to see it.');
    expect(why).toContain('Rollout is available: select it under Flow.');
    const neither = capture({
      flowFields: { rollout: null, reasons: { rollout: reason, gradient: 'No gradient.' } },
    });
    expect(flow.missingReason(neither, DEFAULTS)).toBe(
      `Rollout cannot be shown. ${reason} Gradient-weighted attention is missing too. No gradient.`,
    );
    expect(flow.missingReason(capture(), DEFAULTS)).toBeNull();
    expect(flow.needs(neither, DEFAULTS)).toEqual([]);
  });

  it('starts with the class token, the last token of a decoder, or all tokens', async () => {
    const encoder = capture({ special: [0, 4] });
    const first = await drawFlow(encoder, {});
    expect(layoutProblems(first)).toEqual([]);
    expect(
      first.targets.slice(0, 5).map(({ label }) => label.split(' gets ')[1].replace(', query', '')),
    ).toEqual(flowRowTexts(encoder, 0));
    expect(first.summary).toContain(
      'Rollout up to layer 2: the first token “[CLS]” attends most to',
    );
    const decoder = capture({ info: { stack: 'decoder' } });
    expect((await drawFlow(decoder, {})).targets[3].label).toContain(flowRowTexts(decoder, 4)[3]);
    const plain = capture();
    const drawing = await drawFlow(plain, {});
    const mean =
      [0, 1, 2, 3, 4].reduce((sum, row) => sum + Number(flowRowTexts(plain, row)[1]), 0) / 5;
    expect(Number(drawing.targets[1].label.split(' gets ')[1])).toBeCloseTo(mean, 3);
  });

  it('sums the rows of several selected tokens', async () => {
    const one = capture();
    const drawing = await drawFlow(one, { queries: [1, 3] });
    const expected = Number(flowRowTexts(one, 1)[2]) + Number(flowRowTexts(one, 3)[2]);
    expect(Number(drawing.targets[2].label.split(' gets ')[1])).toBeCloseTo(expected, 3);
    expect(drawing.targets[1].label).toContain(', query');
    expect(drawing.targets[2].pick).toEqual({ queries: [2] });
    expect(drawingTexts(drawing).join(' ')).toContain('2 tokens together (summed)');
  });

  it('shows the single layer too, with value norms if selected', async () => {
    const frame = await loadFrame(flow, capture(), {
      layer: 1,
      heads: [1],
      queries: [2],
      weighting: 'norms',
    });
    const drawing = flow.draw(frame);
    const alone = drawing.targets.filter(({ key }) => key?.startsWith('flow/alone/'));
    const row = frame.capture.weights(0, 1).row(1, 2);
    alone.forEach(({ label }, i) => expect(label).toContain((2 * row[i]).toFixed(4)));
    expect(drawingTexts(drawing).join(' ')).toContain(
      'Layer 1 alone, head 1, times the norm of the value',
    );
    expect(flow.table(frame).header[3]).toBe('Layer 1 alone, head 1, times the norm of the value');
    expect(flow.table(frame).rows[3][3]).toBeCloseTo(2 * row[3], 6);
  });

  it('uses the map of the last earlier layer for a layer without one', () => {
    const one = capture({ layers: 7, flowFields: { layers: [1, 3, 5], rollout: null } });
    const { flow: maps, ...rest } = one.header.sides[0];
    const { rollout } = capture({ layers: 3 }).header.sides[0].flow;
    const mapIndex = (layer: number): number =>
      flowMapIndex({ ...rest, flow: { ...maps, rollout } }, 'rollout', layer);
    expect([0, 1, 2, 3, 4, 5, 6].map(mapIndex)).toEqual([0, 0, 0, 1, 1, 2, 2]);
    expect(flowMapIndex(one.header.sides[0], 'gradient', 3)).toBe(-1);
  });

  it('finds cells of the matrix, and a click selects their row', async () => {
    const drawing = await drawFlow(capture(), {});
    const raster = drawing.marks.find((mark) => mark.kind === 'raster' && mark.rows === 5);
    if (raster?.kind !== 'raster') throw new Error('no matrix');
    const cell = drawing.targetAt?.(raster.x + raster.w * 0.5, raster.y + raster.h * 0.7);
    expect(cell?.pick).toEqual({ queries: [3] });
    expect(cell?.label).toMatch(/^“ran” to “dog”: 0\.\d+/);
  });

  it('has a valid layout for any width and length, with words merged and sinks hidden', async () => {
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
        const frame = await loadFrame(
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
        expect(layoutProblems(flow.draw(frame))).toEqual([]);
      }),
      { numRuns: 25 },
    );
  });
});
