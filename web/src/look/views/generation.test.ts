import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Opened } from '../capture';
import { DEFAULTS } from '../choices';
import type { Next } from '../format';
import { candidates } from './candidates';
import { Blocks, framed, layer, opened, problems, sequence, shares, side, texts } from '../../../test-support/fake';
import { generation, stepsOf } from './generation';

const WORDS = ['The', ' dog', ' ran', ' away', '.'];

const following = (words: string[]): Next => ({
  sequence: 0,
  top: words.map((_, i) => [
    [words[i + 1] ?? ' then', 0.5],
    [' and', 0.25],
    [' cat', 0.125],
  ]),
  actual: words.map((_, i) => (i + 1 < words.length ? 0.5 : null)),
});

function capture(
  words = WORDS,
  prompt: number | null = 2,
  next: Next | null = following(words),
  heads = 3,
): Opened {
  const blocks = new Blocks();
  const text = { ...sequence('text', words), prompt };
  const size: [number, number, number] = [heads, words.length, words.length];
  return opened(blocks, [
    side(blocks, [text], [layer(blocks, size, shares(...size, 3), { stack: 'decoder' })], { next }),
  ]);
}

// An encoder that reads three tokens, a decoder that writes two.
function seq2seq(): Opened {
  const blocks = new Blocks();
  const written = { ...sequence('summary', ['<s>', 'short']), prompt: 1 };
  return opened(blocks, [
    side(
      blocks,
      [sequence('text', ['a', 'long', 'text']), written],
      [
        layer(blocks, [1, 3, 3], shares(1, 3, 3, 1)),
        layer(blocks, [1, 2, 2], [1, 0, 0.5, 0.5], { stack: 'decoder', queries: 1, keys: 1 }),
        layer(blocks, [1, 2, 3], [0.25, 0.75, 0, 1, 0, 0], {
          stack: 'decoder',
          kind: 'cross',
          queries: 1,
          keys: 0,
        }),
      ],
      { next: { sequence: 1, top: [[['short', 0.9]], [['end', 0.6]]], actual: [0.9, null] } },
    ),
  ]);
}

describe('generation', () => {
  it('says what it needs', () => {
    expect(generation.missing(capture(WORDS, null, null), DEFAULTS)).toContain('--generate N');
    expect(generation.missing(capture(), DEFAULTS)).toBeNull();
  });

  it('steps from the second token to what would come, beginning with the first generated', () => {
    expect(stepsOf(capture(), DEFAULTS)).toEqual([1, 5, 2]);
    expect(stepsOf(capture(WORDS, null), DEFAULTS)).toEqual([1, 5, 5]);
    expect(stepsOf(capture(WORDS, 5), DEFAULTS)).toEqual([1, 5, 5]);
    expect(stepsOf(capture(), { ...DEFAULTS, step: 4 })).toEqual([1, 5, 4]);
    expect(stepsOf(capture(), { ...DEFAULTS, step: 99 })).toEqual([1, 5, 5]);
  });

  it('shades tokens by the row of the token before the step', async () => {
    const frame = await framed(generation, capture(), { step: 3, heads: [1] });
    const drawing = generation.draw(frame);
    expect(problems(drawing)).toEqual([]);
    const read = drawing.targets.filter(({ key }) => key?.startsWith('generation/written/'));
    const row = frame.opened.weights(0, 0).row(1, 2);
    read.forEach((target, i) => expect(target.label).toContain(`attention ${row[i].toFixed(4)}`));
    expect(read[3].label).toContain('comes next');
    expect(read.map(({ pick }) => pick?.step)).toEqual([undefined, 1, 2, 3, 4]);
    expect(drawing.summary).toMatch(
      /^After 3 tokens “·away” comes, with probability 50.0 %, the likeliest\./,
    );
    expect(drawing.summary).toContain('Perplexity of the generated part: 2.00.');
  });

  it('shows what was likely and marks what came, also if it was not likely', async () => {
    const next = following(WORDS);
    next.top[2] = [
      [' and', 0.5],
      [' home', 0.25],
    ];
    next.actual[2] = 0.001;
    const one = capture(WORDS, 2, next);
    expect(candidates(next, one.header.sides[0], 3)).toEqual([
      { text: ' and', probability: 0.5, rank: 0, came: false },
      { text: ' home', probability: 0.25, rank: 1, came: false },
      { text: ' away', probability: 0.001, rank: null, came: true },
    ]);
    const drawing = generation.draw(await framed(generation, one, { step: 3 }));
    expect(texts(drawing).filter((text) => text === '◂ came')).toHaveLength(1);
    expect(drawing.summary).toContain('“·and” is likeliest (50.0 %)');
    expect(candidates(next, one.header.sides[0], 5).some(({ came }) => came)).toBe(false);
  });

  it('tells tokens of one text apart by their probability', () => {
    const next: Next = {
      sequence: 0,
      top: [
        [
          ['\ufffd', 0.4],
          ['\ufffd', 0.3],
        ],
        [],
      ],
      actual: [0.3, null],
    };
    const one = capture(['a', '\ufffd'], 1, next);
    expect(candidates(next, one.header.sides[0], 1).map(({ came }) => came)).toEqual([false, true]);
  });

  it('has a track that goes to any token, with the pointer and by keys', async () => {
    const drawing = generation.draw(await framed(generation, capture(), { step: 2 }));
    const [first] = drawing.targets;
    expect(first.key).toBe('generation/track/2');
    const next = drawing.at?.(first.x + first.w * 1.5, first.y + 5);
    expect(next?.pick).toEqual({ step: 3 });
    expect(next?.preview).toEqual({ step: 3 });
    expect(next?.tip?.()).toEqual(['“·away”, token 3', 'probability 50.0 %']);
    expect(drawing.at?.(first.x + first.w * 3.5, first.y + 5)?.label).toBe(
      'What would come after the text',
    );
    expect(drawing.at?.(first.x - first.w * 1.5, first.y + 5)).toBeNull();
  });

  it('of an encoder-decoder shows what is read and what is written', async () => {
    const two = seq2seq();
    expect(generation.layers?.(two, DEFAULTS)).toEqual([1, 2]);
    const drawing = generation.draw(await framed(generation, two, { layer: 2 }));
    expect(problems(drawing)).toEqual([]);
    const read = drawing.targets.filter(({ key }) => key?.startsWith('generation/read/'));
    expect(read.map(({ label }) => label)).toEqual([
      '“a”, token 0, attention 0.2500',
      '“long”, token 1, attention 0.7500',
      '“text”, token 2, attention 0',
    ]);
    expect(
      drawing.targets.filter(({ key }) => key?.startsWith('generation/written/')),
    ).toHaveLength(2);
    const { rows } = generation.table(await framed(generation, two, { layer: 2 }));
    expect(rows.map(([part]) => part)).toEqual([
      'read',
      'read',
      'read',
      'prompt',
      'generated',
      'came next',
    ]);
    expect(generation.needs(two, DEFAULTS)).toEqual([{ side: 0, layer: 1, parts: ['weights'] }]);
  });

  it('keeps its place at any width and length', async () => {
    const size = fc.record({
      tokens: fc.integer({ min: 1, max: 90 }),
      prompt: fc.option(fc.nat(90)),
      step: fc.nat(91),
      width: fc.integer({ min: 320, max: 2560 }),
    });
    await fc.assert(
      fc.asyncProperty(size, async ({ tokens, prompt, step, width }) => {
        const words = Array.from({ length: tokens }, (_, i) => `t${i}`);
        const one = capture(
          words,
          prompt === null ? null : Math.min(prompt, tokens),
          following(words),
          1,
        );
        expect(problems(generation.draw(await framed(generation, one, { step }, width)))).toEqual(
          [],
        );
      }),
      { numRuns: 25 },
    );
  });

  it('has a table of tokens and of what was likely', async () => {
    const { header, rows } = generation.table(await framed(generation, capture(), { step: 3 }));
    expect(header[3]).toBe('attention of token 2');
    expect(rows).toHaveLength(8);
    expect(rows.slice(0, 5).map(([part]) => part)).toEqual([
      'prompt',
      'prompt',
      'generated',
      'generated',
      'generated',
    ]);
    expect(rows.map((row) => row[3] !== '')).toEqual([
      true,
      true,
      true,
      false,
      false,
      false,
      false,
      false,
    ]);
    expect(rows[5]).toEqual(['came next', 3, ' away', '', 0.5]);
  });

  it('shows hostile tokens as text', async () => {
    const words = ['<!--', '</script>', '\u202e', '\ud800', 'y'.repeat(10000)];
    const drawing = generation.draw(await framed(generation, capture(words), { step: 5 }, 320));
    expect(problems(drawing)).toEqual([]);
    expect(texts(drawing).every((text) => text.length < 300)).toBe(true);
  });
});
