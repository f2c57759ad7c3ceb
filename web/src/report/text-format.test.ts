import { expect, test } from 'vitest';
import { plainText } from './text-format';

test('invisible characters become visible signs', () => {
  expect(plainText('a\u202eb\u0000c\nd')).toBe('a‹RLO›b␀c d');
  expect(plainText('<b>&amp;</b>')).toBe('<b>&amp;</b>');
  expect(plainText('\ud800')).toBe('‹U+D800›');
});
