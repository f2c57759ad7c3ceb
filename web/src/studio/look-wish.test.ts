import { expect, test } from 'vitest';
import { EMPTY, imageQuery, TEXT, textBody, UNTRAINED, wrongWith } from './look-wish';

const wish = { ...EMPTY, text: 'to be', other: 'or not', generate: '3' };

test('a text is asked for as the server takes it', () => {
  const base = { subject: 'a/b:c', text: 'to be', neurons: true, generate: 3 };
  expect(textBody(wish, 'run:a/b:c', '')).toEqual(base);
  expect(textBody(wish, 'run:a/b:c', UNTRAINED)).toEqual({ ...base, untrained: true });
  expect(textBody(wish, 'run:a/b:c', TEXT)).toEqual({ ...base, compare_text: 'or not' });
  expect(textBody(wish, 'run:a/b:c', 'model:m')).toEqual({ ...base, compare: { model: 'm' } });
  const two = { ...wish, second: 'x', neurons: false, generate: '0' };
  expect(textBody(two, 'model:m', '')).toEqual({
    subject: { model: 'm' },
    text: 'to be',
    second: 'x',
    neurons: false,
  });
});

test('an image is asked for in the address', () => {
  expect(imageQuery(wish, 'model:m', 'run:a')).toEqual({ model: 'm', compare_run: 'a', neurons: true });
  expect(imageQuery(wish, 'run:a', UNTRAINED)).toEqual({ run: 'a', untrained: true, neurons: true });
});

test('what is wrong is told', () => {
  expect(wrongWith(wish, '', false, 256)).toBe(null);
  expect(wrongWith({ ...wish, generate: '300' }, '', false, 256)).toContain('0 to 256');
  expect(wrongWith({ ...wish, generate: '1.5' }, '', false, 256)).toContain('whole');
  expect(wrongWith({ ...wish, other: ' ' }, TEXT, false, 256)).toContain('compare');
  expect(wrongWith({ ...wish, text: ' ' }, '', false, 256)).toBe('');
  expect(wrongWith(EMPTY, '', true, 256)).toBe(null);
});
