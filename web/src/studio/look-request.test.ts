import { expect, test } from 'vitest';
import { DEFAULT_LOOK_OPTIONS, lookImageQuery, OTHER_TEXT, lookRequestBody, UNTRAINED, findProblem } from './look-request';

const options = { ...DEFAULT_LOOK_OPTIONS, text: 'to be', otherText: 'or not', generate: '3' };

test('the body of a text request', () => {
  const base = { target: 'run:a/b:c', text: 'to be', neurons: true, generate: 3 };
  expect(lookRequestBody(options, 'run:a/b:c', '')).toEqual(base);
  expect(lookRequestBody(options, 'run:a/b:c', UNTRAINED)).toEqual({ ...base, compare: UNTRAINED });
  expect(lookRequestBody(options, 'run:a/b:c', OTHER_TEXT)).toEqual({ ...base, compare: { text: 'or not' } });
  expect(lookRequestBody(options, 'run:a/b:c', 'model:m')).toEqual({ ...base, compare: 'model:m' });
  const two = { ...options, second: 'x', neurons: false, generate: '0' };
  expect(lookRequestBody(two, 'model:m', '')).toEqual({
    target: 'model:m',
    text: 'to be',
    second: 'x',
    neurons: false,
  });
});

test('the query of an image request', () => {
  expect(lookImageQuery(options, 'model:m', 'run:a')).toEqual({ target: 'model:m', compare: 'run:a', neurons: true });
  expect(lookImageQuery(options, 'run:a', UNTRAINED)).toEqual({ target: 'run:a', compare: UNTRAINED, neurons: true });
});

test('problems are described', () => {
  expect(findProblem(options, '', false, 256)).toBe(null);
  expect(findProblem({ ...options, generate: '300' }, '', false, 256)).toContain('0 to 256');
  expect(findProblem({ ...options, generate: '1.5' }, '', false, 256)).toContain('whole');
  expect(findProblem({ ...options, otherText: ' ' }, OTHER_TEXT, false, 256)).toContain('compare');
  expect(findProblem({ ...options, text: ' ' }, '', false, 256)).toBe('');
  expect(findProblem(DEFAULT_LOOK_OPTIONS, '', true, 256)).toBe(null);
});
