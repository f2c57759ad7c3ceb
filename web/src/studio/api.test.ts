import { expect, test } from 'vitest';
import { requestUrl } from './api';

test('a URL contains the path parameters and the query', () => {
  expect(requestUrl('/api/jobs/{id}/events', { id: 'a/b' }, {})).toBe('/api/jobs/a%2Fb/events');
  expect(requestUrl('/api/diff', {}, { run: ['a', 'b&c'] })).toBe('/api/diff?run=a&run=b%26c');
  const query = { target: null, model: undefined, neurons: false, compare: 'ä' };
  expect(requestUrl('/api/look', {}, query)).toBe('/api/look?neurons=false&compare=%C3%A4');
  expect(requestUrl('/api/events', {}, { run: [] })).toBe('/api/events');
});
