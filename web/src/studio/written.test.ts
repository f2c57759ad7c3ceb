import { expect, test } from 'vitest';
import type { Event } from './api';
import { heard, NOTHING, type Written } from './written';

const after = (...events: [string, unknown][]): Written =>
  events.reduce(
    (written, [name, data]) => heard(written, { name, data } as Event<'POST /api/write'>),
    NOTHING,
  );

test('tokens of several summaries come mixed and are put together', () => {
  const written = after(
    ['token', { summary: 0, text: 'A ' }],
    ['token', { summary: 1, text: 'The' }],
    ['token', { summary: 0, text: 'cat' }],
  );
  expect(written.summaries.map(({ text }) => text)).toEqual(['A cat', 'The']);
  expect(written.summaries[0].words).toBeNull();
  expect(written.done).toBe(false);
});

test('the whole summary takes the place of its tokens, and may come without any', () => {
  const words = [{ text: 'A ', sources: [{ start: 0, end: 2, weight: 1 }], copied: 0.9 }, { text: 'cat', sources: [], copied: null }];
  const written = after(
    ['token', { summary: 1, text: 'half' }],
    ['summary', { summary: 1, text: 'A cat', log_probability: -2.5, words }],
    ['done', {}],
  );
  expect(written.summaries[1]).toEqual({
    text: 'A cat',
    logProbability: -2.5,
    words: [
      { text: 'A ', sources: [{ start: 0, end: 2, weight: 1 }], copied: 0.9 },
      { text: 'cat', sources: [], copied: null },
    ],
  });
  expect(written.summaries[0].text).toBe('');
  expect(written.done).toBe(true);
});

test('a search shows its best text so far, each time as a whole', () => {
  const written = after(['draft', { summary: 0, text: 'A dog' }], ['draft', { summary: 0, text: 'The cat' }]);
  expect(written.summaries).toEqual([{ text: 'The cat', words: null, logProbability: null }]);
});

test('a draft that was taken back is gone at the end', () => {
  const written = after(
    ['token', { summary: 0, text: 'A cat' }],
    ['token', { summary: 1, text: 'A cat' }],
    ['draft', { summary: 1, text: '' }],
    ['summary', { summary: 0, text: 'A cat', words: [] }],
    ['done', {}],
  );
  expect(written.summaries.map(({ text }) => text)).toEqual(['A cat']);
});

test('what was cut is said', () => {
  expect(after(['cut', { read: 500, cut: 1200, at: 99 }])).toMatchObject({
    cut: 'This model reads 500 tokens: the last 1,200 were not read.',
    cutAt: 99,
  });
});
