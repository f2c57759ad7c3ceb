import { describe, expect, it } from 'vitest';
import type { Capture } from '../capture';
import type { Effects, Side } from '../capture-format';
import { DEFAULTS, formatFragment, parseFragment } from '../choices';
import { openSwitchChannel, switchRequest } from '../switch-heads';
import {
  ArrayBlocks, drawingTexts, layoutProblems, loadFrame, makeLayer, makeSequence, makeSide,
  openCapture, randomWeights,
} from '../../../test-support/view-captures';
import { effect } from './effect';
import { distinctPercents, explain } from './effect-data';

const TOKENS = ['The', 'cat', '<img src=x>', 'sat', '\u202e'];
const L = 2; // layers and heads of the small model, both
const P = TOKENS.length;

function makeEffects(blocks: ArrayBlocks, overrides: Partial<Effects> = {}): Effects {
  const flat = (rows: number, value: (i: number) => number): ReturnType<ArrayBlocks['floats']> =>
    blocks.floats([rows, P], Array.from({ length: rows * P }, (_, i) => value(i)));
  return {
    kind: 'next', sequence: 0, measured: 4, reasons: {},
    targets: TOKENS.map((token) => ({ token, probability: 0.5 })),
    heads: [flat(L, (i) => (i === P + 4 ? -2 : 0.1)), null],
    keys: { points: TOKENS.map((_, position) => ({ sequence: 0, position, weight: position / 10,
      effect: -position })), all_keys: P, correlation: 1 },
    lens: { layers: ['embedding', 'layer 0'], vocabulary: ['a', '</script>'],
      best: [[0, 0, 0, 0, 0], [1, 1, 1, 1, 1]], best_probability: flat(2, () => 0.5),
      target_probability: flat(2, () => 0.25), top: [[['a', 0.5]], [['</script>', 0.5]]] },
    patching: { layers: ['embedding'], clean_tokens: TOKENS, corrupted_tokens: [...TOKENS].reverse(),
      restored: flat(1, (i) => i / 4), clean: 3, corrupted: -1, description: 'logit of <b>' },
    ...overrides,
  };
}

function makeCapture(overrides: Partial<Effects> | null = {}): Capture {
  const blocks = new ArrayBlocks();
  const layers = [0, 1].map((i) => makeLayer(blocks, [L, P, P], randomWeights(L, P, P, i + 1), {
    name: `blocks.${i}`, heads: [3, 7], all_heads: 8,
    patterns: [{ label: 'local', scores: { local: 0.8 } }, { label: '', scores: {} }],
  }));
  const rest: Partial<Side> = overrides ? { effects: makeEffects(blocks, overrides) } : {};
  return openCapture(blocks, [makeSide(blocks, [makeSequence('text', TOKENS)], layers, rest)]);
}

describe('the effect view', () => {
  it.each([1280, 900, 366])('fits at %i pixels', async (width) => {
    for (const overrides of [{}, { keys: null, lens: null, patching: null }]) {
      const drawing = effect.draw(await loadFrame(effect, makeCapture(overrides), {}, width));
      expect(layoutProblems(drawing)).toEqual([]);
    }
  });

  it('states the largest effect, and opens its head at the chosen token', async () => {
    const drawing = effect.draw(await loadFrame(effect, makeCapture()));
    expect(drawing.summary).toContain('Without layer 0, head 7, the probability of ');
    expect(drawing.summary).toContain('falls from 50% to 7%');
    const cell = drawing.targets.find(({ key }) => key === 'effect/grid/1');
    expect(cell?.pick).toMatchObject({ view: 'heads', layer: 0, heads: [1], queries: [4] });
    expect(drawingTexts(drawing)).toEqual(expect.arrayContaining(['−2.00', 'local', 'Logit lens',
      'Patching map', 'Does attention explain?']));
  });

  it('shows another token, of which less was measured', async () => {
    const { summary, marks } = effect.draw(await loadFrame(effect, makeCapture(), { queries: [1] }));
    expect(summary).toContain('rises from 50% to 55%');
    expect(marks.some((mark) => mark.kind === 'text' && mark.text.includes('--position'))).toBe(true);
  });

  it('says what was not computed, and how to compute it', async () => {
    const bare = makeCapture(null);
    expect(effect.missingReason(bare, DEFAULTS)).toContain('--effects');
    const part = makeCapture({ patching: null, lens: null, reasons: { lens: 'it has <no> layers' } });
    const texts = drawingTexts(effect.draw(await loadFrame(effect, part))).join(' ');
    expect(texts).toContain('--corrupted');
    expect(texts).toContain('it has <no> layers');
  });

  it('switches heads off where a model can be asked', async () => {
    const capture = makeCapture(null);
    capture.switchHeads = () => Promise.reject(new Error('not asked here'));
    expect(effect.missingReason(capture, DEFAULTS)).toBeNull();
    const on = effect.draw(await loadFrame(effect, capture, { off: [0] }));
    const picks = on.targets.filter(({ key }) => key?.startsWith('effect/grid/')).map(({ pick }) => pick);
    expect(picks.slice(0, 3)).toEqual([{ off: [] }, { off: [0, 1] }, { off: [0, 2] }]);
    expect(drawingTexts(on).filter((text) => text === 'off')).toHaveLength(1);
    expect(drawingTexts(on).filter((text) => text === 'local')).toHaveLength(1); // of the other layer
    expect(switchRequest(capture.header.sides[0], [1, 2], null)).toEqual(
      { heads: [['blocks.0', 7], ['blocks.1', 3]], position: null });
    expect(on.targets.some(({ key }) => key?.startsWith('effect/token/'))).toBe(false); // no next tokens
    const choices = { ...DEFAULTS, off: [0, 1, 3] };
    expect(parseFragment(formatFragment(choices))).toEqual(choices);
  });

  it('chooses the token without computed effects too', async () => {
    const capture = makeCapture(null);
    capture.switchHeads = () => Promise.reject(new Error('not asked here'));
    capture.header.sides[0].next = { sequence: 0, top: [], actual: [] };
    const drawing = effect.draw(await loadFrame(effect, capture, { queries: [1] }));
    const tokens = drawing.targets.filter(({ key }) => key?.startsWith('effect/token/'));
    expect(tokens.map(({ pick }) => pick)).toEqual(TOKENS.map((_, i) => ({ queries: [i], layer: 0 })));
    expect(layoutProblems(drawing)).toEqual([]);
  });

  it('has a table of all parts', async () => {
    const { rows } = effect.table(await loadFrame(effect, makeCapture()));
    const parts = rows.map(([part]) => part);
    expect(new Set(parts)).toEqual(
      new Set(['head', 'attention to a token', 'logit lens', 'patch']));
    expect(rows.filter((row) => row.at(-1) === 'not computed')).toHaveLength(2);
  });

  it.each<Partial<Effects>>([
    { measured: 5 }, { sequence: 1 }, { sequence: null }, { targets: [] }, { heads: [null] },
    { kind: 'classes' }, { targets: [{ token: 1 as unknown as string, probability: 0.5 }] },
    { keys: { points: [{ sequence: 0, position: 9, weight: 0, effect: 0 }], all_keys: 1, correlation: 0 } },
  ])('rejects invalid effects %#', (overrides) => {
    expect(() => makeCapture(overrides)).toThrow(/effects/);
  });
});

it('shows enough digits to tell two percentages apart', () => {
  expect(distinctPercents(0.5, 0.07)).toEqual(['50%', '7%']);
  expect(distinctPercents(0.0612, 0.0591)).toEqual(['6.1%', '5.9%']);
  expect(distinctPercents(0.06, 0.06)).toEqual(['6%', '6%']);
});

describe('does attention explain', () => {
  const sentence = (correlation: number | null, size: number): string => explain({
    keys: { points: Array.from({ length: size }, () => ({ sequence: 0, position: 0, weight: 0, effect: 0 })),
      all_keys: size, correlation } } as unknown as Effects);

  it('compares the correlation with chance', () => {
    expect(sentence(0.9, 30)).toMatch(/^Mostly: .* 0\.90 \(30 tokens; chance alone reaches ±0\.36\)/);
    expect(sentence(0.5, 30)).toMatch(/^Partly/);
    expect(sentence(0.3, 30)).toMatch(/^Not more than chance/);
    expect(sentence(-0.6, 30)).toMatch(/^No, the contrary/);
    expect(sentence(0.9, 3)).toMatch(/^Not more than chance/);
    expect(sentence(null, 4)).toContain('all equal');
  });
});

describe('the channel of a notebook', () => {
  it('gives each answer to its question, and checks it', async () => {
    let listen: (content: unknown) => void = () => undefined;
    const sent: { number: number }[] = [];
    const { ask } = openSwitchChannel({
      send: (content) => sent.push(content as { number: number }),
      on: (_, listener) => { listen = listener; },
      off: () => undefined,
    });
    const request = { heads: [], position: null };
    const { signal } = new AbortController();
    const asked = [0, 1, 2].map(() => ask(request, signal));
    const target = { token: 'a', before: 0.5, after: 0.25 };
    listen({ kind: 'switched', number: sent[1].number, answer: { target, top: [target] } });
    listen({ kind: 'switched', number: sent[0].number, answer: { error: 'no head 9' } });
    listen({ kind: 'switched', number: sent[2].number, answer: { target: { token: 3 } } });
    listen('nonsense');
    await expect(asked[1]).resolves.toEqual({ target, top: [target] });
    await expect(asked[0]).rejects.toThrow('no head 9');
    await expect(asked[2]).rejects.toThrow('cannot be read');
  });
});
