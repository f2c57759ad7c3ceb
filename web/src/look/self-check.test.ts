import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { summarizeCheck } from './self-check';

const layer = (difference: number | null, excess: number | null = null) => ({ difference, excess });

describe('the check badge', () => {
  it('accepts differences that rounding explains', () => {
    const { state, text, title } = summarizeCheck([layer(3e-7, 1e-4), layer(0.0312, 0.4)]);
    expect([state, text]).toEqual(['good', '✓ checked, differs by 0.031: rounding']);
    expect(title).toContain('rounding explains it');
  });

  it('reports the largest unexplained difference, even if an explained one is larger', () => {
    const { state, text } = summarizeCheck([layer(0.0312, 0.4), layer(0.0052, 1.01), layer(null)]);
    expect(state).toBe('warn');
    expect(text).toBe('⚠ differs by 0.005, more than rounding, 2 of 3 layers');
  });

  it('uses the limit 0.001 for files without a rounding bound', () => {
    expect(summarizeCheck([layer(0.001)]).state).toBe('good');
    expect(summarizeCheck([layer(0.0011)]).state).toBe('warn');
    expect(summarizeCheck([layer(0.0011, 1)]).state).toBe('good');
  });

  it('says that nothing was checked', () => {
    expect(summarizeCheck([layer(null), layer(null)]).text).toBe('not checked');
    expect(summarizeCheck([]).state).toBe('');
  });

  it('warns if and only if a layer exceeds its limit', () => {
    const size = fc.double({ min: 0, max: 10, noNaN: true });
    const anyLayer = fc.record({ difference: fc.option(size), excess: fc.option(size) });
    fc.assert(
      fc.property(fc.array(anyLayer, { minLength: 1 }), (layers) => {
        const isSuspicious = layers.some(
          ({ difference, excess }) =>
            difference !== null && (excess === null ? difference > 0.001 : excess > 1),
        );
        expect(summarizeCheck(layers).state === 'warn').toBe(isSuspicious);
      }),
    );
  });
});
