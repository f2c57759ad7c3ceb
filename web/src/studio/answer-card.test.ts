import { expect, test } from 'vitest';
import { describeMargin } from './answer-card';

test('the margin may be negative', () => {
  expect(describeMargin(0.5)).toBe('50% ahead of the next answer');
  expect(describeMargin(-0.06)).toBe('6% behind the next answer');
});
