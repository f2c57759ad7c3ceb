import { expect, test } from 'vitest';
import { DEFAULT_OPTIONS, checkOptions } from './generation-options';

test('beam search sends no temperature, and sampling no beams', () => {
  expect(checkOptions(DEFAULT_OPTIONS, 8)).toEqual({ request: { count: 3, seed: 0, block: 3, beams: 6 }, problem: '' });
  const sampled = checkOptions({ ...DEFAULT_OPTIONS, kind: 'sample', topP: '0.9' }, 8);
  expect(sampled).toEqual({ request: { count: 3, seed: 0, block: 3, temperature: 0.8, top_p: 0.9 }, problem: '' });
});

test('invalid options are described before the request', () => {
  const problem = (more: Partial<typeof DEFAULT_OPTIONS>) => checkOptions({ ...DEFAULT_OPTIONS, ...more }, 8).problem;
  expect(problem({ count: '9' })).toBe('Summaries: give a whole number from 1 to 8.');
  expect(problem({ count: '' })).toContain('Summaries');
  expect(checkOptions({ ...DEFAULT_OPTIONS, count: '' }, 8, 'Continuations').problem).toContain('Continuations');
  expect(problem({ beams: '1.5' })).toContain('Beams');
  expect(problem({ kind: 'sample', temperature: '0' })).toContain('Temperature');
  expect(problem({ kind: 'sample', topP: '2' })).toContain('Top p');
  expect(problem({ kind: 'sample', topK: 'x' })).toContain('Top k');
  expect(problem({ kind: 'sample', beams: 'x' })).toBe('');
});
