import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { createMeasure } from '../../shared/text-width';
import { toItems } from '../prepare-weights';
import { makeSequence } from '../../../test-support/view-captures';
import { layOutText, shadedTextMarks, type Shading } from './shaded-text';

const measure = createMeasure(null);
const shading: Shading = {
  values: [],
  largest: 1,
  scale: 'linear',
  search: '',
  isSelected: () => false,
  isLater: () => false,
};

describe('text of shaded tokens', () => {
  it('stays within its width, in order, without overlap', () => {
    const words = fc.array(fc.string({ unit: 'grapheme', maxLength: 40 }), {
      minLength: 1,
      maxLength: 60,
    });
    fc.assert(
      fc.property(words, fc.integer({ min: 90, max: 900 }), (texts, width) => {
        const text = makeSequence('text', texts);
        const { boxes, height } = layOutText(
          toItems(text, false),
          text.tokens,
          7,
          11,
          width,
          measure,
        );
        const pair = boxes.findIndex((box, i) => box.y === boxes[i - 1]?.y);
        const right = pair > 0 && boxes[pair].x < boxes[pair - 1].x; // then every line runs right to left
        boxes.forEach((box, i) => {
          expect(box.x).toBeGreaterThanOrEqual(7);
          expect(box.x + box.w).toBeLessThanOrEqual(7 + width + 1e-9);
          expect(box.y + box.h).toBeLessThanOrEqual(11 + height);
          const before = boxes[i - 1];
          if (!before || box.y > before.y) return;
          expect(box.y).toBe(before.y);
          if (right) expect(box.x + box.w).toBeLessThan(before.x + 1e-9);
          else expect(box.x).toBeGreaterThan(before.x + before.w - 1e-9);
        });
      }),
    );
  });

  it('breaks lines after a line break, and starts at the right for Hebrew', () => {
    const text = makeSequence('text', ['one', 'two\n', 'three']);
    const [one, two, three] = layOutText(
      toItems(text, false),
      text.tokens,
      0,
      0,
      500,
      measure,
    ).boxes;
    expect(one.y).toBe(two.y);
    expect(three.y).toBeGreaterThan(two.y);
    expect(three.x).toBe(0);
    const hebrew = makeSequence('text', ['שלום', 'עולם', 'a']);
    const [first, second] = layOutText(
      toItems(hebrew, false),
      hebrew.tokens,
      0,
      0,
      500,
      measure,
    ).boxes;
    expect(first.x + first.w).toBe(500);
    expect(second.x).toBeLessThan(first.x);
  });

  it('sets tokens of one word close together', () => {
    const text = makeSequence('text', ['un', '##like', 'ly']);
    text.tokens[1].word = 0;
    const [a, b, c] = layOutText(toItems(text, false), text.tokens, 0, 0, 500, measure).boxes;
    expect(b.x - (a.x + a.w)).toBe(1);
    expect(c.x - (b.x + b.w)).toBe(5);
  });

  it('shows a value by shade and height, and its sign by hue and a hollow bar', () => {
    const text = makeSequence('text', ['a', 'b', 'c']);
    const all = toItems(text, false);
    const layout = layOutText(all, text.tokens, 0, 0, 500, measure);
    const marks = shadedTextMarks(layout, all, { ...shading, values: [1, -0.5, 0] });
    const boxes = marks.filter((mark) => mark.kind === 'rect');
    expect(boxes.map(({ fill, stroke }) => [fill, stroke])).toEqual([
      ['s0', undefined],
      ['s0', undefined],
      ['s1', undefined],
      [undefined, 's1'],
    ]);
    expect(boxes[0].opacity).toBe(2 * (boxes[2].opacity ?? 0));
    expect(boxes[1].h).toBe(2 * boxes[3].h);
  });

  it('shows NaN and all zeros without shade', () => {
    const text = makeSequence('text', ['a', 'b']);
    const all = toItems(text, false);
    const layout = layOutText(all, text.tokens, 0, 0, 500, measure);
    for (const [values, largest] of [
      [[NaN, NaN], 1],
      [[0, 0], 0],
    ] as const) {
      const marks = shadedTextMarks(layout, all, { ...shading, values, largest });
      expect(marks.map((mark) => mark.kind)).toEqual(['text', 'text']);
    }
  });

  it('marks search matches, selected tokens and later tokens', () => {
    const text = makeSequence('text', ['cat', 'dog', 'end']);
    const all = toItems(text, false);
    const layout = layOutText(all, text.tokens, 0, 0, 500, measure);
    const marks = shadedTextMarks(layout, all, {
      ...shading,
      values: [0, 0, 0],
      search: 'CAT',
      isSelected: (i) => i === 1,
      isLater: (i) => i === 2,
    });
    expect(marks.filter((mark) => mark.kind === 'rect' && mark.fill === 'found').length).toBe(1);
    expect(marks.filter((mark) => mark.kind === 'rect' && mark.stroke === 'ink').length).toBe(2);
    expect(marks.filter((mark) => mark.kind === 'text').map((mark) => mark.fill)).toEqual([
      'ink',
      'ink',
      'dim',
    ]);
  });
});
