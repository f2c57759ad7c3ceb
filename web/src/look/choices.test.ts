import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { bounded, DEFAULTS, opening, parse, print, type Choices } from './choices';
import { Blocks, header, layer, sequence } from '../../test-support/made';

const anything = (maxLength: number) =>
  fc.array(fc.nat(0x10ffff), { maxLength }).map((all) => String.fromCodePoint(...all));
const index = fc.nat(5000);
const set = fc.uniqueArray(index, { maxLength: 40 }).map((all) => all.sort((a, b) => a - b));
const word = <T extends string>(...all: T[]) => fc.constantFrom(...all);
const choices: fc.Arbitrary<Choices> = fc.record({
  view: word('heads', 'matrix', 'flow'),
  side: fc.nat(1),
  layer: index,
  heads: set,
  mean: fc.boolean(),
  queries: set,
  key: fc.option(index),
  scale: word('linear', 'sqrt', 'log'),
  threshold: fc.nat(10000).map((n) => (n / 10000) ** 2),
  top: fc.nat(50),
  first: word('show', 'hide', 'renormalize'),
  separators: word('show', 'hide', 'renormalize'),
  words: fc.boolean(),
  search: anything(50),
  weighting: word('weights', 'norms'),
  order: word('layer', 'pattern', 'change'),
  step: fc.option(index),
  flow: word('rollout', 'gradient'),
  against: fc.option(fc.tuple(index, index)),
  zoom: fc.option(fc.tuple(index, index, index, index)),
  table: fc.boolean(),
});

describe('the fragment', () => {
  it('says what differs from what the capture opens with', () => {
    const head = header(new Blocks(), [sequence(['a'])], []);
    expect(opening(head)).toEqual(DEFAULTS);
    const first = opening({ ...head, opening: { view: 'cross', layer: 7 } });
    expect(first).toEqual({ ...DEFAULTS, view: 'cross', layer: 7 });
    expect(parse('', first)).toEqual(first);
    expect(print(first, first)).toBe('');
    expect(print(DEFAULTS, first)).toBe('view=heads&layer=0');
    expect(parse('view=heads&layer=0', first)).toEqual(DEFAULTS);
    fc.assert(
      fc.property(choices, (one) => {
        const again = print(one, first);
        expect(print(parse(again, first), first)).toBe(again);
      }),
    );
  });


  it('is short and readable', () => {
    expect(print(DEFAULTS)).toBe('');
    expect(
      print({
        ...DEFAULTS,
        view: 'matrix',
        layer: 3,
        heads: [0, 1, 2, 5],
        scale: 'sqrt',
        zoom: [0, 9, 3, 4],
      }),
    ).toBe('view=matrix&layer=3&heads=0-2.5&scale=sqrt&zoom=0.9.3.4');
    expect(parse('#view=matrix&heads=0-2.5')).toEqual({
      ...DEFAULTS,
      view: 'matrix',
      heads: [0, 1, 2, 5],
    });
  });

  it('gives back what was chosen', () => {
    fc.assert(
      fc.property(choices, (one) => {
        const again = parse(`#${print(one)}`);
        expect({ ...again, search: '' }).toEqual({ ...one, search: '' });
        if (!/\p{Cs}/u.test(one.search)) expect(again.search).toBe(one.search);
      }),
    );
  });

  it('ignores what is bad', () => {
    expect(
      parse(
        'view=<b>&layer=-1&heads=x.2-1.5e9&threshold=7&scale=cubic&zoom=1.2.3&key=1.5' +
          '&__proto__=1&table=yes&step=99999999999',
      ),
    ).toEqual(DEFAULTS);
    expect(parse('search=%E0%A4%A&layer=2')).toEqual({ ...DEFAULTS, layer: 2 });
    expect(parse('heads=0-16777216').heads.length).toBe(4096);
    expect(parse(`search=${'x'.repeat(3000)}`).search.length).toBe(200);
    fc.assert(
      fc.property(anything(100), (text) => {
        const one = parse(text);
        expect(Object.keys(one).sort()).toEqual(Object.keys(DEFAULTS).sort());
        expect(typeof one.layer).toBe('number');
      }),
    );
  });
});

describe('choices within a capture', () => {
  const blocks = new Blocks();
  const weights = Array.from({ length: 2 * 3 * 5 }, () => 0.2);
  const head = header(
    blocks,
    [sequence(['a', 'b', 'c']), sequence(['p', 'q', 'r', 's', 't'])],
    [layer(blocks, weights, [2, 3, 5], { keys: 1 })],
  );

  it('are bounded', () => {
    const far = bounded(
      {
        ...DEFAULTS,
        side: 9,
        layer: 9,
        heads: [1, 7],
        queries: [2, 3],
        key: 5,
        zoom: [0, 3, 0, 4],
        step: 99,
      },
      head,
    );
    expect(far).toEqual({ ...DEFAULTS, heads: [1], queries: [2], step: 5 });
    expect(bounded({ ...DEFAULTS, key: 4, zoom: [1, 2, 0, 4] }, head)).toEqual({
      ...DEFAULTS,
      key: 4,
      zoom: [1, 2, 0, 4],
    });
  });

  it('have one way to say all', () => {
    expect(bounded({ ...DEFAULTS, heads: [0, 1], zoom: [0, 2, 0, 4] }, head)).toEqual(DEFAULTS);
  });
});
