import { expect, test } from 'vitest';
import type { Event } from './api';
import { applyEvent, NO_GENERATIONS, type GenerationState } from './generation-events';

const after = (...events: [string, unknown][]): GenerationState =>
  events.reduce(
    (state, [name, data]) => applyEvent(state, { name, data } as Event<'POST /api/write'>),
    NO_GENERATIONS,
  );

test('tokens of several texts arrive mixed and are joined', () => {
  const state = after(
    ['token', { generation: 0, text: 'A ' }],
    ['token', { generation: 1, text: 'The' }],
    ['token', { generation: 0, text: 'cat' }],
  );
  expect(state.generations.map(({ text }) => text)).toEqual(['A cat', 'The']);
  expect(state.generations[0].words).toBeNull();
  expect(state.done).toBe(false);
});

test('the complete text replaces its tokens, and may come without any', () => {
  const words = [{ text: 'A ', sources: [{ start: 0, end: 2, weight: 1 }], copied: 0.9 }, { text: 'cat', sources: [], copied: null }];
  const state = after(
    ['token', { generation: 1, text: 'half' }],
    ['generation', { generation: 1, text: 'A cat', log_probability: -2.5, words }],
    ['done', {}],
  );
  expect(state.generations[1]).toEqual({
    text: 'A cat',
    logProbability: -2.5,
    words: [
      { text: 'A ', sources: [{ start: 0, end: 2, weight: 1 }], copied: 0.9 },
      { text: 'cat', sources: [], copied: null },
    ],
  });
  expect(state.generations[0].text).toBe('');
  expect(state.done).toBe(true);
});

test('a beam search sends its whole best text each time', () => {
  const state = after(['draft', { generation: 0, text: 'A dog' }], ['draft', { generation: 0, text: 'The cat' }]);
  expect(state.generations).toEqual([{ text: 'The cat', words: null, logProbability: null }]);
});

test('a withdrawn draft is removed at the end', () => {
  const state = after(
    ['token', { generation: 0, text: 'A cat' }],
    ['token', { generation: 1, text: 'A cat' }],
    ['draft', { generation: 1, text: '' }],
    ['generation', { generation: 0, text: 'A cat', words: [] }],
    ['done', {}],
  );
  expect(state.generations.map(({ text }) => text)).toEqual(['A cat']);
});

test('truncation is described', () => {
  expect(after(['cut', { read: 500, cut: 1200, at: 99 }])).toMatchObject({
    truncation: 'This model reads 500 tokens: the last 1,200 were not read.',
    cutAt: 99,
  });
});
