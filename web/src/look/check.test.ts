import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { checkOf } from './check';

const layer = (difference: number | null, excess: number | null = null) => ({ difference, excess });

describe('the badge of the check', () => {
  it('takes what rounding explains for what it is', () => {
    const { state, said, title } = checkOf([layer(3e-7, 1e-4), layer(0.0312, 0.4)]);
    expect([state, said]).toEqual(['good', '✓ checked, differs by 0.031: rounding']);
    expect(title).toContain('which rounding explains');
  });

  it('warns of what rounding does not explain, however large what it explains is', () => {
    const { state, said } = checkOf([layer(0.0312, 0.4), layer(0.0052, 1.01), layer(null)]);
    expect(state).toBe('warn');
    expect(said).toBe('⚠ differs by 0.005, more than rounding, 2 of 3 layers');
  });

  it('has 0.001 where a file does not say what rounding explains', () => {
    expect(checkOf([layer(0.001)]).state).toBe('good');
    expect(checkOf([layer(0.0011)]).state).toBe('warn');
    expect(checkOf([layer(0.0011, 1)]).state).toBe('good');
  });

  it('says when nothing was checked', () => {
    expect(checkOf([layer(null), layer(null)]).said).toBe('not checked');
    expect(checkOf([]).state).toBe('');
  });

  it('warns where any layer is in doubt, and nowhere else', () => {
    const size = fc.double({ min: 0, max: 10, noNaN: true });
    const some = fc.record({ difference: fc.option(size), excess: fc.option(size) });
    fc.assert(
      fc.property(fc.array(some, { minLength: 1 }), (layers) => {
        const wrong = layers.some(
          ({ difference, excess }) =>
            difference !== null && (excess === null ? difference > 0.001 : excess > 1),
        );
        expect(checkOf(layers).state === 'warn').toBe(wrong);
      }),
    );
  });
});
