import fc from 'fast-check';
import { expect, test } from 'vitest';
import { linkTo, parseRoute, printRoute, type Route } from './route-format';

test('an address by hand', () => {
  const route = parseRoute('#/look?subject=runs%2Fa%20b&compare=c!view=matrix&search=a!b');
  expect(route.page).toBe('look');
  expect({ ...route.fields }).toEqual({ subject: ['runs/a b'], compare: ['c'] });
  expect(route.inner).toBe('view=matrix&search=a!b');
  expect(linkTo('runs', { run: ['a/b', 'c!d'] })).toBe('#/runs?run=a%2Fb&run=c%21d');
});

test('unknown and broken addresses open the runs', () => {
  for (const hash of ['', '#', '#/', '#/__proto__?run=a', '#!x'])
    expect(parseRoute(hash).page).toBe('runs');
  const odd = parseRoute('#/ask?run=%zz&__proto__=x&run=&B=1&run=a&=');
  expect({ ...odd.fields }).toEqual({ run: ['a'] });
  expect(parseRoute(`#/runs?${'run=a&'.repeat(500)}`).fields.run).toHaveLength(64);
});

test('parsing a printed route returns the route', () => {
  const text = fc.string({ unit: 'grapheme', minLength: 1, maxLength: 20 });
  const route = fc.record({
    page: fc.constantFrom('runs', 'ask', 'playground'),
    fields: fc.dictionary(
      fc.stringMatching(/^[a-z]{1,8}$/),
      fc.array(text, { minLength: 1, maxLength: 3 }),
      { maxKeys: 4 },
    ),
    inner: fc.constantFrom('', 'view=matrix&layer=1', 'open=copy!'),
  });
  fc.assert(
    fc.property(route, (original: Route) => {
      const parsed = parseRoute(`#${printRoute(original)}`);
      expect({ ...parsed, fields: { ...parsed.fields } }).toEqual({ ...original, fields: { ...original.fields } });
    }),
  );
});
