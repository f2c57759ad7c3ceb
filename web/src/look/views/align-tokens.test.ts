import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { alignTokens, normalizeToken } from './align-tokens';

const tokens = (...texts: string[]): { text: string }[] => texts.map((text) => ({ text }));

// The definition: the longest list of tokens that both have in order.
function longestCommonLength(a: string[], b: string[]): number {
  const cache = new Map<string, number>();
  const rest = (i: number, j: number): number => {
    if (i === a.length || j === b.length) return 0;
    const key = `${i} ${j}`;
    const cached = cache.get(key);
    if (cached !== undefined) return cached;
    const size = a[i] === b[j] ? 1 + rest(i + 1, j + 1) : Math.max(rest(i + 1, j), rest(i, j + 1));
    cache.set(key, size);
    return size;
  };
  return rest(0, 0);
}

describe('the alignment of two texts', () => {
  it('matches the expected tokens of two sentences', () => {
    const first = tokens('I', 'was', 'going', 'to', 'play', 'at', 'the', 'park', '.');
    const second = tokens('I', 'was', 'going', 'to', 'a', 'play', 'in', 'the', 'park', '.');
    const { left, right, same, complete } = alignTokens(first, second);
    expect([...left]).toEqual([0, 1, 2, 3, 4, 6, 7, 8]);
    expect([...right]).toEqual([0, 1, 2, 3, 5, 7, 8, 9]);
    expect([same, complete]).toEqual([false, true]);
  });

  it('is a longest common subsequence', () => {
    const texts = fc.array(fc.constantFrom('a', 'b', 'c', 'd'), { maxLength: 13 });
    fc.assert(
      fc.property(texts, texts, (a, b) => {
        const { left, right } = alignTokens(tokens(...a), tokens(...b));
        expect(left.length).toBe(longestCommonLength(a, b));
        expect(right.length).toBe(left.length);
        left.forEach((index, i) => {
          expect(a[index]).toBe(b[right[i]]);
          if (i > 0) expect(index > left[i - 1] && right[i] > right[i - 1]).toBe(true);
        });
      }),
    );
  });

  it('matches every token of equal texts', () => {
    fc.assert(
      fc.property(
        fc.array(fc.string({ unit: 'binary', maxLength: 5 }), { maxLength: 12 }),
        (texts) => {
          const { left, right, same } = alignTokens(tokens(...texts), tokens(...texts));
          expect(same).toBe(true);
          expect([...left]).toEqual(texts.map((_, i) => i));
          expect([...right]).toEqual([...left]);
        },
      ),
    );
  });

  it('ignores the word marks of tokenizers, but not tokens that are only a mark', () => {
    const { left, same } = alignTokens(tokens('Ġthe', '▁cat', '##s'), tokens(' The', 'cat', 's'));
    expect(left.length).toBe(3);
    expect(same).toBe(false);
    expect(normalizeToken(' ')).toBe(' ');
    expect(normalizeToken('##')).toBe('##');
    expect(alignTokens(tokens(' '), tokens('\n')).left.length).toBe(0);
  });

  it('skips the middle of texts that are too long, and reports it', () => {
    const first = tokens('a', 'x', 'y', 'b', 'z');
    const second = tokens('a', 'y', 'x', 'c', 'z');
    const { left, complete } = alignTokens(first, second, 8);
    expect([...left]).toEqual([0, 4]);
    expect(complete).toBe(false);
    expect(alignTokens(first, second, 9).complete).toBe(true);
  });

  it('handles texts of 2,048 tokens', () => {
    const long = (shift: number): { text: string }[] =>
      tokens(...Array.from({ length: 2048 }, (_, i) => `${(i * 7 + shift) % 61}`));
    expect(alignTokens(long(0), long(3)).left.length).toBeGreaterThan(1900);
  });
});
