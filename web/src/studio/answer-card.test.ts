import { expect, test } from 'vitest';
import { ahead } from './answer-card';

test('an answer need not be the likeliest', () => {
  expect(ahead(0.5)).toBe('50% ahead of the next');
  expect(ahead(-0.06)).toBe('6% behind the next');
});
