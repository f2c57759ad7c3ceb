import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  clampChoices,
  DEFAULTS,
  formatAddress,
  initialChoices,
  parseAddress,
  parseFragment,
  formatFragment,
  type Choices,
} from './choices';
import { ArrayBlocks, makeHeader, makeLayer, makeSequence } from '../../test-support/file-captures';

const anyText = (maxLength: number) =>
  fc.array(fc.nat(0x10ffff), { maxLength }).map((all) => String.fromCodePoint(...all));
const index = fc.nat(5000);
const indices = fc.uniqueArray(index, { maxLength: 40 }).map((all) => all.sort((a, b) => a - b));
const oneOf = <T extends string>(...all: T[]) => fc.constantFrom(...all);
const choices: fc.Arbitrary<Choices> = fc.record({
  view: oneOf('heads', 'matrix', 'flow'),
  side: fc.nat(1),
  layer: index,
  heads: indices,
  mean: fc.boolean(),
  queries: indices,
  key: fc.option(index),
  scale: oneOf('linear', 'sqrt', 'log'),
  threshold: fc.nat(10000).map((n) => (n / 10000) ** 2),
  top: fc.nat(50),
  first: oneOf('show', 'hide', 'renormalize'),
  separators: oneOf('show', 'hide', 'renormalize'),
  words: fc.boolean(),
  search: anyText(50),
  weighting: oneOf('weights', 'norms'),
  order: oneOf('layer', 'pattern', 'change'),
  step: fc.option(index),
  flow: oneOf('rollout', 'gradient'),
  off: indices,
  against: fc.option(fc.tuple(index, index)),
  zoom: fc.option(fc.tuple(index, index, index, index)),
  stage: index,
  temperature: fc.nat(60).map((n) => 2 ** (n / 10 - 3)),
  vectors: oneOf('pair', 'keys', 'texts'),
  table: fc.boolean(),
});

describe('the URL fragment', () => {
  it('holds only what differs from the initial choices', () => {
    const head = makeHeader(new ArrayBlocks(), [makeSequence(['a'])], []);
    expect(initialChoices(head)).toEqual(DEFAULTS);
    const opening = { view: 'cross', layer: 7, head: null, query: null };
    expect(initialChoices({ ...head, opening })).toEqual({ ...DEFAULTS, view: 'cross', layer: 7 });
    const initial = initialChoices({ ...head, opening: { ...opening, head: 3, query: 5 } });
    expect(initial).toEqual({ ...DEFAULTS, view: 'cross', layer: 7, heads: [3], queries: [5] });
    for (const empty of ['', '#', '#unknown=1']) expect(parseAddress(empty, initial)).toBe(initial);
    expect(formatAddress(initial, initial)).toBe('');
    expect(formatAddress(DEFAULTS, initial)).toBe('view=heads&layer=0');
    expect(parseAddress('view=heads&layer=0', initial)).toEqual(DEFAULTS);
    // a view alone: of the head and the token that the page opens with
    expect(parseAddress('view=image', initial)).toEqual({ ...initial, view: 'image' });
    expect(formatAddress({ ...initial, view: 'image' }, initial)).toBe('view=image');
    expect(parseAddress('layer=2', initial)).toEqual({ ...DEFAULTS, layer: 2 }); // no head 3
    fc.assert(
      fc.property(choices, (one) => {
        const address = formatAddress(one, initial);
        expect(formatAddress(parseAddress(address, initial), initial)).toBe(address);
        expect(formatFragment(parseAddress(address, initial))).toBe(formatFragment(one));
      }),
    );
  });

  it('is short and readable', () => {
    expect(formatFragment(DEFAULTS)).toBe('');
    expect(
      formatFragment({
        ...DEFAULTS,
        view: 'matrix',
        layer: 3,
        heads: [0, 1, 2, 5],
        scale: 'sqrt',
        zoom: [0, 9, 3, 4],
      }),
    ).toBe('view=matrix&layer=3&heads=0-2.5&scale=sqrt&zoom=0.9.3.4');
    expect(parseFragment('#view=matrix&heads=0-2.5')).toEqual({
      ...DEFAULTS,
      view: 'matrix',
      heads: [0, 1, 2, 5],
    });
  });

  it('restores all choices', () => {
    fc.assert(
      fc.property(choices, (one) => {
        const reparsed = parseFragment(`#${formatFragment(one)}`);
        expect({ ...reparsed, search: '' }).toEqual({ ...one, search: '' });
        if (!/\p{Cs}/u.test(one.search)) expect(reparsed.search).toBe(one.search);
      }),
    );
  });

  it('ignores invalid values', () => {
    expect(
      parseFragment(
        'view=<b>&layer=-1&heads=x.2-1.5e9&threshold=7&scale=cubic&zoom=1.2.3&key=1.5' +
          '&__proto__=1&table=yes&step=99999999999',
      ),
    ).toEqual(DEFAULTS);
    expect(parseFragment('search=%E0%A4%A&layer=2')).toEqual({ ...DEFAULTS, layer: 2 });
    expect(parseFragment('heads=0-16777216').heads.length).toBe(4096);
    expect(parseFragment(`search=${'x'.repeat(3000)}`).search.length).toBe(200);
    fc.assert(
      fc.property(anyText(100), (text) => {
        const one = parseFragment(text);
        expect(Object.keys(one).sort()).toEqual(Object.keys(DEFAULTS).sort());
        expect(typeof one.layer).toBe('number');
      }),
    );
  });
});

describe('choices within a capture', () => {
  const blocks = new ArrayBlocks();
  const weights = Array.from({ length: 2 * 3 * 5 }, () => 0.2);
  const head = makeHeader(
    blocks,
    [makeSequence(['a', 'b', 'c']), makeSequence(['p', 'q', 'r', 's', 't'])],
    [makeLayer(blocks, weights, [2, 3, 5], { keys: 1 })],
  );

  it('are clamped', () => {
    const clamped = clampChoices(
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
    expect(clamped).toEqual({ ...DEFAULTS, heads: [1], queries: [2], step: 5 });
    expect(clampChoices({ ...DEFAULTS, key: 4, zoom: [1, 2, 0, 4] }, head)).toEqual({
      ...DEFAULTS,
      key: 4,
      zoom: [1, 2, 0, 4],
    });
  });

  it('represent a full selection as no selection', () => {
    expect(clampChoices({ ...DEFAULTS, heads: [0, 1], zoom: [0, 2, 0, 4] }, head)).toEqual(
      DEFAULTS,
    );
  });
});
