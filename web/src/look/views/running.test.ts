import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { measurer } from '../../shared/fonts';
import { items } from '../prepare';
import { sequence } from '../../../test-support/fake';
import { flowing, runningMarks, type Shading } from './running';

const measure = measurer(null);
const shading: Shading = {
  values: [],
  most: 1,
  scale: 'linear',
  search: '',
  chosen: () => false,
  later: () => false,
};

describe('running text', () => {
  it('stays within its width, in order, without overlap', () => {
    const words = fc.array(fc.string({ unit: 'grapheme', maxLength: 40 }), {
      minLength: 1,
      maxLength: 60,
    });
    fc.assert(
      fc.property(words, fc.integer({ min: 90, max: 900 }), (texts, width) => {
        const text = sequence('text', texts);
        const { boxes, height } = flowing(items(text, false), text.tokens, 7, 11, width, measure);
        const pair = boxes.findIndex((box, i) => box.y === boxes[i - 1]?.y);
        const right = pair > 0 && boxes[pair].x < boxes[pair - 1].x; // then every line runs so
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

  it('begins a line after a token with a line break, and at the right for Hebrew', () => {
    const text = sequence('text', ['one', 'two\n', 'three']);
    const [one, two, three] = flowing(items(text, false), text.tokens, 0, 0, 500, measure).boxes;
    expect(one.y).toBe(two.y);
    expect(three.y).toBeGreaterThan(two.y);
    expect(three.x).toBe(0);
    const hebrew = sequence('text', ['שלום', 'עולם', 'a']);
    const [first, second] = flowing(items(hebrew, false), hebrew.tokens, 0, 0, 500, measure).boxes;
    expect(first.x + first.w).toBe(500);
    expect(second.x).toBeLessThan(first.x);
  });

  it('sets tokens of one word close together', () => {
    const text = sequence('text', ['un', '##like', 'ly']);
    text.tokens[1].word = 0;
    const [a, b, c] = flowing(items(text, false), text.tokens, 0, 0, 500, measure).boxes;
    expect(b.x - (a.x + a.w)).toBe(1);
    expect(c.x - (b.x + b.w)).toBe(5);
  });

  it('tells a value by shade and by height, a sign by hue and by an empty bar', () => {
    const text = sequence('text', ['a', 'b', 'c']);
    const all = items(text, false);
    const running = flowing(all, text.tokens, 0, 0, 500, measure);
    const marks = runningMarks(running, all, { ...shading, values: [1, -0.5, 0] });
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

  it('shows what is not a number, or all nothing, without shade', () => {
    const text = sequence('text', ['a', 'b']);
    const all = items(text, false);
    const running = flowing(all, text.tokens, 0, 0, 500, measure);
    for (const [values, most] of [
      [[NaN, NaN], 1],
      [[0, 0], 0],
    ] as const) {
      const marks = runningMarks(running, all, { ...shading, values, most });
      expect(marks.map((mark) => mark.kind)).toEqual(['text', 'text']);
    }
  });

  it('marks what was searched, what is chosen and what comes later', () => {
    const text = sequence('text', ['cat', 'dog', 'end']);
    const all = items(text, false);
    const running = flowing(all, text.tokens, 0, 0, 500, measure);
    const marks = runningMarks(running, all, {
      ...shading,
      values: [0, 0, 0],
      search: 'CAT',
      chosen: (i) => i === 1,
      later: (i) => i === 2,
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
