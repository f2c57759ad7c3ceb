import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Capture } from '../capture';
import { DEFAULTS } from '../choices';
import type { Mark } from '../view';
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
import { sensible } from '../../shared/readable-text';
import { image } from './image';
import { heatMarks, lowContrastGray, patchAt, patchRect, strongestPatches } from './image-marks';

// A picture of 3 x 2 patches after `first` other tokens.
function capture(
  rows = 3,
  columns = 2,
  first = 1,
  options: { heads?: number; rollout?: boolean; scale?: number } = {},
): Capture {
  const { heads = 2, rollout = false, scale = 1 } = options;
  const blocks = new ArrayBlocks();
  const [width, height] = [columns * 4, rows * 5];
  const pixels = blocks.bytes(
    [height, width, 3],
    Uint8Array.from({ length: width * height * 3 }, (_, i) => (i * 37) % 256),
  );
  const texts = [
    ...Array.from({ length: first }, (_, i) => `[${i}]`),
    ...Array.from(
      { length: rows * columns },
      (_, i) => `${Math.floor(i / columns) + 1},${(i % columns) + 1}`,
    ),
  ];
  const patches = {
    ...makeSequence('patches', texts),
    image: { width, height, rows, columns, first, pixels },
  };
  const tokens = texts.length;
  const weights = randomWeights(heads, tokens, tokens, 3).map((value) => value * scale);
  return openCapture(blocks, [
    makeSide(
      blocks,
      [patches],
      [makeLayer(blocks, [heads, tokens, tokens], weights, { signed: scale < 0 })],
      {
        flow: {
          rollout: rollout
            ? [blocks.floats([tokens, tokens], randomWeights(1, tokens, tokens, 9))]
            : null,
          gradient: null,
          target: '',
          reasons: {},
          layers: [0],
        },
      },
    ),
  ]);
}

const pictures = (marks: Mark[]) =>
  marks.flatMap((mark) => (mark.kind === 'picture' ? [mark] : []));

const luminance = (color: number[]): number =>
  0.299 * color[0] + 0.587 * color[1] + 0.114 * color[2];

describe('the image view', () => {
  it('shows more attention as brighter, on black pixels as on white ones', async () => {
    const frame = await loadFrame(image, capture(1, 2, 0));
    const picture = frame.capture.header.sides[0].sequences[0].image;
    if (!picture) throw new Error('no picture');
    const area = { x: 0, y: 0, w: 20, h: 10 };
    // the luminance of a patch of these pixels, whose weight is this fraction of the largest one
    const shown = (pixel: number, fraction: number): number => {
      const pixels = new Uint8Array(picture.width * picture.height * 3).fill(pixel);
      const [gray] = lowContrastGray({ bytes: () => pixels } as unknown as Capture, picture);
      const [mark] = heatMarks(area, picture, [fraction, 0], 1, 'linear');
      if (mark?.kind !== 'rect') return gray;
      const color = [1, 3, 5].map((i) => parseInt(String(mark.fill).slice(i, i + 2), 16));
      const opacity = mark.opacity ?? 1;
      return opacity * luminance(color) + (1 - opacity) * gray;
    };
    fc.assert(
      fc.property(fc.nat(255), fc.nat(255), fc.double({ min: 0, max: 0.6, noNaN: true }), (most, other, less) => {
        expect(shown(most, 1)).toBeGreaterThan(shown(other, less) + 25);
      }),
    );
  });

  it('needs an image', () => {
    const blocks = new ArrayBlocks();
    const text = openCapture(blocks, [
      makeSide(blocks, [makeSequence('t', ['a'])], [makeLayer(blocks, [1, 1, 1], [1])]),
    ]);
    expect(image.missingReason(text, DEFAULTS)).toContain('--image FILE');
    expect(image.missingReason(capture(), DEFAULTS)).toBeNull();
  });

  it('shows a large picture, and a small one per head and for the rollout', async () => {
    const drawing = image.draw(await loadFrame(image, capture(3, 2, 1, { rollout: true })));
    expect(layoutProblems(drawing)).toEqual([]);
    expect(pictures(drawing.marks)).toHaveLength(5);
    expect(new Set(pictures(drawing.marks).map(({ rgb }) => rgb)).size).toBe(2);
    expect(drawingTexts(drawing).some((text) => text.startsWith('rollout, to'))).toBe(true);
    const [large] = pictures(drawing.marks);
    expect(large.w / large.h).toBeCloseTo(8 / 15, 6);
  });

  it('starts with the first token if it is not a patch, else with the middle patch', async () => {
    const frame = await loadFrame(image, capture());
    expect(image.draw(frame).summary).toContain('mean of 2 heads: “[0]” attends most to patch');
    expect(image.draw(await loadFrame(image, capture(3, 2, 0))).summary).toContain(
      'patch 2,2 attends most to patch',
    );
    const best = frame.capture.weights(0, 0).mean([0, 1]).slice(1, 7);
    const strongest = best.indexOf(Math.max(...best));
    expect(image.draw(frame).summary).toContain(
      `attends most to patch ${Math.floor(strongest / 2) + 1},${(strongest % 2) + 1}`,
    );
  });

  it('selects a patch as query by a click, other tokens by a button', async () => {
    const frame = await loadFrame(image, capture(), { heads: [1] });
    const drawing = image.draw(frame);
    const [large] = pictures(drawing.marks);
    const patch = drawing.targetAt?.(large.x + large.w * 0.75, large.y + large.h * 0.5);
    expect(patch?.pick).toEqual({ queries: [4] });
    const weight = frame.capture.weights(0, 0).at(1, 0, 4);
    expect(patch?.label).toBe(`patch 2,2: attention ${weight.toFixed(4)}`);
    expect(patch?.tooltip?.()[1]).toBe(`gets ${sensible(weight)}`);
    expect(drawing.targets[0].label).toContain('“[0]”, selected as query');
    expect(drawing.targets[0].pick).toEqual({ queries: [0] });
    const drawingOfPatch = image.draw(
      await loadFrame(image, frame.capture, { heads: [1], queries: [4] }),
    );
    const other = drawingOfPatch.targetAt?.(large.x + large.w * 0.25, large.y + large.h * 0.1);
    expect(other?.label).toContain(frame.capture.weights(0, 0).at(1, 4, 1).toFixed(4));
    expect(drawingTexts(drawingOfPatch).join(' ')).toContain('✚: the query');
  });

  it('selects a head by its small picture, and all heads again', async () => {
    const heads = (choices: object) =>
      loadFrame(image, capture(), choices).then((frame) =>
        image.draw(frame).targets.filter(({ key }) => key?.startsWith('image/head/')),
      );
    expect((await heads({})).map(({ pick }) => pick)).toEqual([{ heads: [0] }, { heads: [1] }]);
    expect((await heads({ heads: [1] })).map(({ pick }) => pick)).toEqual([
      { heads: [0] },
      { heads: [] },
    ]);
  });

  it('finds patches at their positions', () => {
    const { image: picture } = capture(3, 2, 1).header.sides[0].sequences[0];
    if (!picture) throw new Error('no image');
    const area = { x: 10, y: 20, w: 80, h: 150 };
    for (let token = 1; token < 7; token++) {
      const { x, y, w, h } = patchRect(area, picture, token);
      expect(patchAt(area, picture, x + w / 2, y + h / 2)).toBe(token);
    }
    expect(patchAt(area, picture, 9, 30)).toBe(-1);
    expect(strongestPatches([9, 1, -5, 0, 3, 1, 2], picture, 3)).toEqual([2, 4, 6]);
  });

  it('reduces the contrast of the picture, so that colors are visible on black and white', async () => {
    const frame = await loadFrame(image, capture());
    const { image: picture } = frame.capture.header.sides[0].sequences[0];
    if (!picture) throw new Error('no image');
    const gray = lowContrastGray(frame.capture, picture);
    expect(Math.min(...gray)).toBeGreaterThanOrEqual(24);
    expect(Math.max(...gray)).toBeLessThanOrEqual(84);
    expect([gray[3], gray[4]]).toEqual([gray[5], gray[5]]);
  });

  it('marks negative weights by hue and by a minus sign', async () => {
    const drawing = image.draw(await loadFrame(image, capture(3, 2, 1, { scale: -1 })));
    expect(drawing.marks.some((mark) => mark.kind === 'rect' && mark.fill === '#7cc4ff')).toBe(
      true,
    );
    expect(drawing.marks.some((mark) => mark.kind === 'rect' && mark.fill === '#ffc21a')).toBe(
      false,
    );
    expect(layoutProblems(drawing)).toEqual([]);
  });

  it('works for a text that attends to a picture', async () => {
    const blocks = new ArrayBlocks();
    const pixels = blocks.bytes([2, 2, 3], new Uint8Array(12));
    const patches = {
      ...makeSequence('patches', ['1,1', '1,2']),
      image: { width: 2, height: 2, rows: 1, columns: 2, first: 0, pixels },
    };
    const one = openCapture(blocks, [
      makeSide(
        blocks,
        [patches, makeSequence('text', ['a', 'red', 'cat'])],
        [
          makeLayer(blocks, [1, 3, 2], [1, 0, 0.5, 0.5, 0.25, 0.75], {
            kind: 'cross',
            queries: 1,
            keys: 0,
          }),
        ],
      ),
    ]);
    const drawing = image.draw(await loadFrame(image, one));
    expect(layoutProblems(drawing)).toEqual([]);
    expect(drawing.summary).toContain('“cat” attends most to patch 1,2 (0.75)');
    expect(drawing.targets.slice(0, 3).map(({ pick }) => pick)).toEqual([
      { queries: [0] },
      { queries: [1] },
      { queries: [2] },
    ]);
    const [large] = pictures(drawing.marks);
    expect(drawing.targetAt?.(large.x + 2, large.y + 2)?.pick).toBeUndefined();
  });

  it('has a table with a row for each token and a column for each head', async () => {
    const frame = await loadFrame(image, capture(3, 2, 1, { rollout: true }), { queries: [2] });
    const { header, rows } = image.table(frame);
    expect(header).toEqual(['token', 'row', 'column', 'displayed', 'head 0', 'head 1', 'rollout']);
    expect(rows).toHaveLength(7);
    expect(rows[0].slice(0, 3)).toEqual(['[0]', '', '']);
    expect(rows[6].slice(0, 3)).toEqual(['3,2', 3, 2]);
    expect(rows[6][5]).toBeCloseTo(frame.capture.weights(0, 0).at(1, 2, 6), 6);
  });

  it('has a valid layout for any width and number of patches and heads', async () => {
    const size = fc.record({
      rows: fc.integer({ min: 1, max: 9 }),
      columns: fc.integer({ min: 1, max: 9 }),
      first: fc.integer({ min: 0, max: 5 }),
      heads: fc.integer({ min: 1, max: 17 }),
      width: fc.integer({ min: 320, max: 2560 }),
      height: fc.integer({ min: 300, max: 1400 }),
    });
    await fc.assert(
      fc.asyncProperty(size, async ({ rows, columns, first, heads, width, height }) => {
        const one = capture(rows, columns, first, { heads, rollout: true });
        expect(layoutProblems(image.draw(await loadFrame(image, one, {}, width, height)))).toEqual(
          [],
        );
      }),
      { numRuns: 25 },
    );
  });
});
