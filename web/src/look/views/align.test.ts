import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { align, comparable } from './align';

const tokens = (...texts: string[]): { text: string }[] => texts.map((text) => ({ text }));

// The definition: the longest list of tokens that both have in order.
function longest(a: string[], b: string[]): number {
  const known = new Map<string, number>();
  const rest = (i: number, j: number): number => {
    if (i === a.length || j === b.length) return 0;
    const key = `${i} ${j}`;
    const found = known.get(key);
    if (found !== undefined) return found;
    const size = a[i] === b[j] ? 1 + rest(i + 1, j + 1) : Math.max(rest(i + 1, j), rest(i, j + 1));
    known.set(key, size);
    return size;
  };
  return rest(0, 0);
}

describe('aligning two texts', () => {
  it('finds what a person finds', () => {
    const first = tokens('I', 'was', 'going', 'to', 'play', 'at', 'the', 'park', '.');
    const second = tokens('I', 'was', 'going', 'to', 'a', 'play', 'in', 'the', 'park', '.');
    const { left, right, same, complete } = align(first, second);
    expect([...left]).toEqual([0, 1, 2, 3, 4, 6, 7, 8]);
    expect([...right]).toEqual([0, 1, 2, 3, 5, 7, 8, 9]);
    expect([same, complete]).toEqual([false, true]);
  });

  it('is the longest common subsequence, in order on both sides', () => {
    const texts = fc.array(fc.constantFrom('a', 'b', 'c', 'd'), { maxLength: 13 });
    fc.assert(
      fc.property(texts, texts, (a, b) => {
        const { left, right } = align(tokens(...a), tokens(...b));
        expect(left.length).toBe(longest(a, b));
        expect(right.length).toBe(left.length);
        left.forEach((place, i) => {
          expect(a[place]).toBe(b[right[i]]);
          if (i > 0) expect(place > left[i - 1] && right[i] > right[i - 1]).toBe(true);
        });
      }),
    );
  });

  it('is complete for equal texts, whatever they are', () => {
    fc.assert(
      fc.property(
        fc.array(fc.string({ unit: 'binary', maxLength: 5 }), { maxLength: 12 }),
        (texts) => {
          const { left, right, same } = align(tokens(...texts), tokens(...texts));
          expect(same).toBe(true);
          expect([...left]).toEqual(texts.map((_, i) => i));
          expect([...right]).toEqual([...left]);
        },
      ),
    );
  });

  it('ignores how tokenizers mark words, but not what is only a mark', () => {
    const { left, same } = align(tokens('Ġthe', '▁cat', '##s'), tokens(' The', 'cat', 's'));
    expect(left.length).toBe(3);
    expect(same).toBe(false);
    expect(comparable(' ')).toBe(' ');
    expect(comparable('##')).toBe('##');
    expect(align(tokens(' '), tokens('\n')).left.length).toBe(0);
  });

  it('leaves the middle of what is too long, and says so', () => {
    const first = tokens('a', 'x', 'y', 'b', 'z');
    const second = tokens('a', 'y', 'x', 'c', 'z');
    const { left, complete } = align(first, second, 8);
    expect([...left]).toEqual([0, 4]);
    expect(complete).toBe(false);
    expect(align(first, second, 9).complete).toBe(true);
  });

  it('takes texts of 2,048 tokens', () => {
    const long = (shift: number): { text: string }[] =>
      tokens(...Array.from({ length: 2048 }, (_, i) => `${(i * 7 + shift) % 61}`));
    expect(align(long(0), long(3)).left.length).toBeGreaterThan(1900);
  });
});
