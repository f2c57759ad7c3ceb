import fc from 'fast-check';
import { expect, test } from 'vitest';
import { shadeText, strongestSources } from './word-sources';

test('pieces by hand: overlaps add up, the strongestSources is 1', () => {
  const pieces = shadeText('abcdef', [
    { start: 1, end: 4, weight: 0.25 },
    { start: 3, end: 5, weight: 0.25 },
  ]);
  expect(pieces).toEqual([
    { text: 'a', shade: 0 },
    { text: 'bc', shade: 0.5 },
    { text: 'd', shade: 1 },
    { text: 'e', shade: 0.5 },
    { text: 'f', shade: 0 },
  ]);
  const huge = { start: 0, end: 1, weight: Number.MAX_VALUE };
  expect(shadeText('ab', [huge, huge])).toEqual([{ text: 'a', shade: 1 }, { text: 'b', shade: 0 }]);
  expect(shadeText('abc', [])).toEqual([{ text: 'abc', shade: 0 }]);
  expect(shadeText('', [{ start: 0, end: 3, weight: 1 }])).toEqual([]);
});

test('the pieces always add up to the text', () => {
  const source = fc.record({
    start: fc.integer({ min: -5, max: 40 }),
    end: fc.integer({ min: -5, max: 40 }),
    weight: fc.oneof(fc.double(), fc.constant(0.5)),
  });
  fc.assert(
    fc.property(fc.string({ maxLength: 30 }), fc.array(source), (text, sources) => {
      const pieces = shadeText(text, sources);
      expect(pieces.map((piece) => piece.text).join('')).toBe(text);
      for (const { shade } of pieces) expect(shade >= 0 && shade <= 1).toBe(true);
    }),
  );
});

test('the strongest sources as text', () => {
  const sources = [
    { start: 0, end: 3, weight: 0.2 },
    { start: 4, end: 7, weight: 0.7 },
    { start: 8, end: 11, weight: 0.1 },
  ];
  expect(strongestSources('the cat the', sources)).toEqual(['“cat” 70%', '“the” 30%']);
});
