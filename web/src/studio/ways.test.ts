import { expect, test } from 'vitest';
import { GIVEN, wayOf } from './ways';

test('a search sends beams and no temperature, a draw the other way round', () => {
  expect(wayOf(GIVEN, 8)).toEqual({ sent: { count: 3, seed: 0, block: 3, beams: 6 }, wrong: '' });
  const drawn = wayOf({ ...GIVEN, kind: 'draw', topP: '0.9' }, 8);
  expect(drawn).toEqual({ sent: { count: 3, seed: 0, block: 3, temperature: 0.8, top_p: 0.9 }, wrong: '' });
});

test('what is wrong is said before it is sent', () => {
  const wrong = (more: Partial<typeof GIVEN>) => wayOf({ ...GIVEN, ...more }, 8).wrong;
  expect(wrong({ count: '9' })).toBe('Summaries: a whole number from 1 to 8.');
  expect(wrong({ count: '' })).toContain('Summaries');
  expect(wayOf({ ...GIVEN, count: '' }, 8, 'Continuations').wrong).toContain('Continuations');
  expect(wrong({ beams: '1.5' })).toContain('Beams');
  expect(wrong({ kind: 'draw', temperature: '0' })).toContain('Temperature');
  expect(wrong({ kind: 'draw', topP: '2' })).toContain('Top p');
  expect(wrong({ kind: 'draw', topK: 'x' })).toContain('Top k');
  expect(wrong({ kind: 'draw', beams: 'x' })).toBe('');
});
