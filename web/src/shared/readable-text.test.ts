import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  matchesSearch,
  inCell,
  isolate,
  number,
  quoted,
  rounded,
  sensible,
  short,
  visible,
  whole,
  wholePercent,
} from './readable-text';

describe('invisible characters', () => {
  it('get a sign or a name', () => {
    expect(visible(' play\n\t')).toBe('·play⏎⇥');
    expect(visible('a\u0000b\u001b\u007f')).toBe('a␀b␛␡');
    expect(visible('\u200b\u200d\u202e\u2066\ufeff\u00ad')).toBe(
      '‹ZWSP›‹ZWJ›‹RLO›‹LRI›‹BOM›‹soft hyphen›',
    );
    expect(visible('\u0085\u2003\ue000\u{e0041}')).toBe('‹U+0085›‹U+2003›‹U+E000›‹U+E0041›');
    expect(visible('\u2065\ufff0\u{e0fff}')).toBe('‹U+2065›‹U+FFF0›‹U+E0FFF›'); // nobody's yet
    expect(visible('\ud83d')).toBe('‹U+D83D›');
    expect(visible('x\udc00')).toBe('x‹U+DC00›');
    expect(visible('')).toBe('‹empty›');
    expect(visible('\u0301a')).toBe('◌\u0301a');
    expect(visible('❤\ufe0f')).toBe('❤\ufe0f');
    expect(visible('a\ufe0f')).toBe('a‹VS16›');
  });

  it('are removed from every text, and signs stay unchanged', () => {
    fc.assert(
      fc.property(fc.array(fc.nat(0x2fff), { maxLength: 40 }), (all) => {
        const text = String.fromCodePoint(...all);
        const signs = visible(text);
        expect(signs).not.toMatch(
          /[\u0000-\u0020\u007f-\u009f\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]/,
        );
        expect(signs).not.toMatch(/[\ud800-\udbff](?![\udc00-\udfff])/);
        expect(visible(signs)).toBe(signs);
      }),
    );
  });

  it('do not change other scripts', () => {
    for (const text of ['日本語', 'שלום', 'مرحبا', 'नमस्ते', 'é', '<b>&amp;"\''])
      expect(visible(text)).toBe(text);
  });
});

describe('long texts', () => {
  it('are shortened by characters as people count them', () => {
    expect(short('abcdef', 4)).toBe('abcd…');
    expect(short('abcd', 4)).toBe('abcd');
    expect(short('e\u0301'.repeat(5), 4)).toBe(`${'e\u0301'.repeat(4)}…`);
    expect(short('日'.repeat(30))).toBe(`${'日'.repeat(24)}…`);
    expect(short('😀'.repeat(300), 3)).toBe('😀😀😀…');
    expect(short('x'.repeat(10000)).length).toBe(25);
  });

  it('are limited for any number of combining marks', () => {
    expect(short(`a${'\u0301'.repeat(10000)}`).length).toBeLessThan(40);
    expect(whole(`a${'\u0301'.repeat(1000)}`).length).toBeLessThan(40);
  });

  it('are complete in a tooltip, up to a limit', () => {
    expect(whole('y'.repeat(1000))).toBe('y'.repeat(1000));
    expect(whole('y'.repeat(10000))).toBe(`${'y'.repeat(1200)}… (10,000 characters)`);
    expect(inCell(' a b ')).toBe('·a b·');
    expect(inCell('x'.repeat(500)).length).toBe(161);
  });
});

describe('sentences', () => {
  it('keep the direction of a token inside it', () => {
    expect(quoted('שלום')).toBe('“\u2068שלום\u2069”');
    expect(isolate('abc')).toBe('abc');
  });

  it('find tokens whatever their case', () => {
    expect([matchesSearch('Play', 'pLA'), matchesSearch('Play', ''), matchesSearch('Play', 'x')]).toEqual([
      true,
      false,
      false,
    ]);
  });
});

describe('numbers', () => {
  it('have a sign, decimals or an exponent', () => {
    expect(
      [0, 0.12345, -0.5, 1e-7, NaN, Infinity, -Infinity, 123456, 2e9].map((x) => number(x)),
    ).toEqual(['0', '0.1235', '−0.5000', '1.00e−7', '–', '∞', '−∞', '123456.0', '2.00e9']);
  });

  it('have an error bound that is never too small', () => {
    expect(sensible(0.197344, 0.000004)).toBe('0.20');
    expect(sensible(0.0432, 1e-5)).toBe('0.043');
    expect(sensible(-0.00123)).toBe('−0.0012');
    expect(sensible(1)).toBe('1.00');
    expect(sensible(0)).toBe('0');
    expect(sensible(0.2, 0.03)).toBe('0.20 ± 0.03'); // the error changes these digits
    expect([0.64, 0.005, 1, 0].map(wholePercent)).toEqual(['64%', '0.5%', '100%', '0%']);
    expect(rounded(0.1234, 0.00041)).toBe('0.1234 ± 0.0005');
    expect(rounded(0.5, 0)).toBe('0.500000');
    expect(rounded(0.1, NaN)).toBe('0.100000');
    fc.assert(
      fc.property(fc.double({ min: 1e-8, max: 0.9, noNaN: true }), (bound) => {
        const shown = Number(rounded(0.5, bound).split('± ')[1].replace('−', '-'));
        expect(shown).toBeGreaterThanOrEqual(bound * 0.999999);
      }),
    );
  });
});
