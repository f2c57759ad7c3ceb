import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Opened } from '../capture';
import { DEFAULTS } from '../choices';
import type { Mark } from '../view';
import { Blocks, framed, layer, opened, problems, sequence, shares, side, texts } from '../../../test-support/fake';
import { image } from './image';
import { grayOf, patchAt, patchBox, strongest } from './picture';

// A picture of 3 x 2 patches after `first` other tokens.
function capture(
  rows = 3,
  columns = 2,
  first = 1,
  more: { heads?: number; rollout?: boolean; scale?: number } = {},
): Opened {
  const { heads = 2, rollout = false, scale = 1 } = more;
  const blocks = new Blocks();
  const [width, height] = [columns * 4, rows * 5];
  const pixels = blocks.bytes(
    [height, width, 3],
    Uint8Array.from({ length: width * height * 3 }, (_, i) => (i * 37) % 256),
  );
  const texts_ = [
    ...Array.from({ length: first }, (_, i) => `[${i}]`),
    ...Array.from(
      { length: rows * columns },
      (_, i) => `${Math.floor(i / columns) + 1},${(i % columns) + 1}`,
    ),
  ];
  const patches = {
    ...sequence('patches', texts_),
    image: { width, height, rows, columns, first, pixels },
  };
  const tokens = texts_.length;
  const weights = shares(heads, tokens, tokens, 3).map((value) => value * scale);
  return opened(blocks, [
    side(
      blocks,
      [patches],
      [layer(blocks, [heads, tokens, tokens], weights, { signed: scale < 0 })],
      {
        flow: {
          rollout: rollout ? [blocks.floats([tokens, tokens], shares(1, tokens, tokens, 9))] : null,
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

describe('the picture', () => {
  it('needs an image', () => {
    const blocks = new Blocks();
    const text = opened(blocks, [
      side(blocks, [sequence('t', ['a'])], [layer(blocks, [1, 1, 1], [1])]),
    ]);
    expect(image.missing(text, DEFAULTS)).toContain('--image FILE');
    expect(image.missing(capture(), DEFAULTS)).toBeNull();
  });

  it('stands large, and small for every head and for the rollout', async () => {
    const drawing = image.draw(await framed(image, capture(3, 2, 1, { rollout: true })));
    expect(problems(drawing)).toEqual([]);
    expect(pictures(drawing.marks)).toHaveLength(5);
    expect(new Set(pictures(drawing.marks).map(({ rgb }) => rgb)).size).toBe(2);
    expect(texts(drawing).some((text) => text.startsWith('rollout, to'))).toBe(true);
    const [large] = pictures(drawing.marks);
    expect(large.w / large.h).toBeCloseTo(8 / 15, 6);
  });

  it('asks for the first token if it is no patch, else for the middle patch', async () => {
    const frame = await framed(image, capture());
    expect(image.draw(frame).summary).toContain('mean of 2 heads: “[0]” looks most at patch');
    expect(image.draw(await framed(image, capture(3, 2, 0))).summary).toContain(
      'patch 2,2 looks most at patch',
    );
    const best = frame.opened.weights(0, 0).mean([0, 1]).slice(1, 7);
    const most = best.indexOf(Math.max(...best));
    expect(image.draw(frame).summary).toContain(
      `looks most at patch ${Math.floor(most / 2) + 1},${(most % 2) + 1}`,
    );
  });

  it('lets a patch ask by a click, others by a button', async () => {
    const frame = await framed(image, capture(), { heads: [1] });
    const drawing = image.draw(frame);
    const [large] = pictures(drawing.marks);
    const patch = drawing.at?.(large.x + large.w * 0.75, large.y + large.h * 0.5);
    expect(patch?.pick).toEqual({ queries: [4] });
    const weight = frame.opened.weights(0, 0).at(1, 0, 4);
    expect(patch?.label).toBe(`patch 2,2: attention ${weight.toFixed(4)}`);
    expect(patch?.tip?.()[1]).toContain(weight.toFixed(3));
    expect(drawing.targets[0].label).toContain('“[0]”, chosen as query');
    expect(drawing.targets[0].pick).toEqual({ queries: [0] });
    const asked = image.draw(await framed(image, frame.opened, { heads: [1], queries: [4] }));
    const other = asked.at?.(large.x + large.w * 0.25, large.y + large.h * 0.1);
    expect(other?.label).toContain(frame.opened.weights(0, 0).at(1, 4, 1).toFixed(4));
    expect(texts(asked).join(' ')).toContain('✚: the query');
  });

  it('chooses a head by its small picture, and all again', async () => {
    const heads = (choices: object) =>
      framed(image, capture(), choices).then((frame) =>
        image.draw(frame).targets.filter(({ key }) => key?.startsWith('image/head/')),
      );
    expect((await heads({})).map(({ pick }) => pick)).toEqual([{ heads: [0] }, { heads: [1] }]);
    expect((await heads({ heads: [1] })).map(({ pick }) => pick)).toEqual([
      { heads: [0] },
      { heads: [] },
    ]);
  });

  it('finds patches where it draws them', () => {
    const { image: it_ } = capture(3, 2, 1).header.sides[0].sequences[0];
    if (!it_) throw new Error('no image');
    const place = { x: 10, y: 20, w: 80, h: 150 };
    for (let token = 1; token < 7; token++) {
      const { x, y, w, h } = patchBox(place, it_, token);
      expect(patchAt(place, it_, x + w / 2, y + h / 2)).toBe(token);
    }
    expect(patchAt(place, it_, 9, 30)).toBe(-1);
    expect(strongest([9, 1, -5, 0, 3, 1, 2], it_, 3)).toEqual([2, 4, 6]);
  });

  it('presses tones together, so that the layer is seen on black and on white', async () => {
    const frame = await framed(image, capture());
    const { image: it_ } = frame.opened.header.sides[0].sequences[0];
    if (!it_) throw new Error('no image');
    const gray = grayOf(frame.opened, it_);
    expect(Math.min(...gray)).toBeGreaterThanOrEqual(70);
    expect(Math.max(...gray)).toBeLessThanOrEqual(185);
    expect([gray[3], gray[4]]).toEqual([gray[5], gray[5]]);
  });

  it('marks negative weights by hue and by a minus', async () => {
    const drawing = image.draw(await framed(image, capture(3, 2, 1, { scale: -1 })));
    expect(drawing.marks.some((mark) => mark.kind === 'rect' && mark.fill === '#2f8fff')).toBe(
      true,
    );
    expect(drawing.marks.some((mark) => mark.kind === 'rect' && mark.fill === '#ff8a00')).toBe(
      false,
    );
    expect(problems(drawing)).toEqual([]);
  });

  it('serves a text that looks at a picture', async () => {
    const blocks = new Blocks();
    const pixels = blocks.bytes([2, 2, 3], new Uint8Array(12));
    const patches = {
      ...sequence('patches', ['1,1', '1,2']),
      image: { width: 2, height: 2, rows: 1, columns: 2, first: 0, pixels },
    };
    const one = opened(blocks, [
      side(
        blocks,
        [patches, sequence('text', ['a', 'red', 'cat'])],
        [
          layer(blocks, [1, 3, 2], [1, 0, 0.5, 0.5, 0.25, 0.75], {
            kind: 'cross',
            queries: 1,
            keys: 0,
          }),
        ],
      ),
    ]);
    const drawing = image.draw(await framed(image, one));
    expect(problems(drawing)).toEqual([]);
    expect(drawing.summary).toContain('“cat” looks most at patch 1,2 (0.750)');
    expect(drawing.targets.slice(0, 3).map(({ pick }) => pick)).toEqual([
      { queries: [0] },
      { queries: [1] },
      { queries: [2] },
    ]);
    const [large] = pictures(drawing.marks);
    expect(drawing.at?.(large.x + 2, large.y + 2)?.pick).toBeUndefined();
  });

  it('has a table with a row for each token and a column for each head', async () => {
    const frame = await framed(image, capture(3, 2, 1, { rollout: true }), { queries: [2] });
    const { header, rows } = image.table(frame);
    expect(header).toEqual(['token', 'row', 'column', 'shown', 'head 0', 'head 1', 'rollout']);
    expect(rows).toHaveLength(7);
    expect(rows[0].slice(0, 3)).toEqual(['[0]', '', '']);
    expect(rows[6].slice(0, 3)).toEqual(['3,2', 3, 2]);
    expect(rows[6][5]).toBeCloseTo(frame.opened.weights(0, 0).at(1, 2, 6), 6);
  });

  it('keeps its place at any width and number of patches and heads', async () => {
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
        expect(problems(image.draw(await framed(image, one, {}, width, height)))).toEqual([]);
      }),
      { numRuns: 25 },
    );
  });
});
