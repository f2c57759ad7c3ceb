import { expect, test } from 'vitest';
import { addressOf } from './api';

test('an address has its names put in, and what is given behind it', () => {
  expect(addressOf('/api/jobs/{id}/events', { id: 'a/b' }, {})).toBe('/api/jobs/a%2Fb/events');
  expect(addressOf('/api/diff', {}, { run: ['a', 'b&c'] })).toBe('/api/diff?run=a&run=b%26c');
  const query = { run: null, model: undefined, neurons: false, compare_run: 'ä' };
  expect(addressOf('/api/look', {}, query)).toBe('/api/look?neurons=false&compare_run=%C3%A4');
  expect(addressOf('/api/events', {}, { run: [] })).toBe('/api/events');
});
