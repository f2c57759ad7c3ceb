import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Capture } from '../capture';
import { DEFAULTS } from '../choices';
import type { Next } from '../capture-format';
import { nextTokenCandidates } from './next-token-candidates';
import {
  ArrayBlocks,
  loadFrame,
  makeLayer,
  openCapture,
  layoutProblems,
  makeSequence,
  randomWeights,
  makeSide,
  drawingTexts,
} from '../../../test-support/view-captures';
import { generation, stepRange } from './generation';

const WORDS = ['The', ' dog', ' ran', ' away', '.'];

const makeNext = (words: string[]): Next => ({
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
  next: Next | null = makeNext(words),
  heads = 3,
): Capture {
  const blocks = new ArrayBlocks();
  const text = { ...makeSequence('text', words), prompt };
  const size: [number, number, number] = [heads, words.length, words.length];
  return openCapture(blocks, [
    makeSide(
      blocks,
      [text],
      [makeLayer(blocks, size, randomWeights(...size, 3), { stack: 'decoder' })],
      { next },
    ),
  ]);
}

// An encoder that reads three tokens, a decoder that writes two.
function seq2seq(): Capture {
  const blocks = new ArrayBlocks();
  const written = { ...makeSequence('summary', ['<s>', 'short']), prompt: 1 };
  return openCapture(blocks, [
    makeSide(
      blocks,
      [makeSequence('text', ['a', 'long', 'text']), written],
      [
        makeLayer(blocks, [1, 3, 3], randomWeights(1, 3, 3, 1)),
        makeLayer(blocks, [1, 2, 2], [1, 0, 0.5, 0.5], { stack: 'decoder', queries: 1, keys: 1 }),
        makeLayer(blocks, [1, 2, 3], [0.25, 0.75, 0, 1, 0, 0], {
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
  it('explains what it needs', () => {
    expect(generation.missingReason(capture(WORDS, null, null), DEFAULTS)).toContain(
      '--generate N',
    );
    expect(generation.missingReason(capture(), DEFAULTS)).toBeNull();
  });

  it('steps from the second token to the prediction after the text, starting with the first generated one', () => {
    expect(stepRange(capture(), DEFAULTS)).toEqual([1, 5, 2]);
    expect(stepRange(capture(WORDS, null), DEFAULTS)).toEqual([1, 5, 5]);
    expect(stepRange(capture(WORDS, 5), DEFAULTS)).toEqual([1, 5, 5]);
    expect(stepRange(capture(), { ...DEFAULTS, step: 4 })).toEqual([1, 5, 4]);
    expect(stepRange(capture(), { ...DEFAULTS, step: 99 })).toEqual([1, 5, 5]);
  });

  it('shades tokens by the row of the token before the step', async () => {
    const frame = await loadFrame(generation, capture(), { step: 3, heads: [1] });
    const drawing = generation.draw(frame);
    expect(layoutProblems(drawing)).toEqual([]);
    const read = drawing.targets.filter(({ key }) => key?.startsWith('generation/written/'));
    const row = frame.capture.weights(0, 0).row(1, 2);
    read.forEach((target, i) => expect(target.label).toContain(`attention ${row[i].toFixed(4)}`));
    expect(read[3].label).toContain('next token');
    expect(read.map(({ pick }) => pick?.step)).toEqual([undefined, 1, 2, 3, 4]);
    expect(drawing.summary).toMatch(
      /^After 3 tokens, “·away” follows with probability 50%, the most likely\./,
    );
    expect(drawing.summary).toContain('Perplexity of the generated part: 2.00.');
  });

  it('shows the candidates and marks the actual token, even if it was unlikely', async () => {
    const next = makeNext(WORDS);
    next.top[2] = [
      [' and', 0.5],
      [' home', 0.25],
    ];
    next.actual[2] = 0.001;
    const one = capture(WORDS, 2, next);
    expect(nextTokenCandidates(next, one.header.sides[0], 3)).toEqual([
      { text: ' and', probability: 0.5, rank: 0, isActual: false },
      { text: ' home', probability: 0.25, rank: 1, isActual: false },
      { text: ' away', probability: 0.001, rank: null, isActual: true },
    ]);
    const drawing = generation.draw(await loadFrame(generation, one, { step: 3 }));
    expect(drawingTexts(drawing).filter((text) => text === '◂ actual')).toHaveLength(1);
    expect(drawing.summary).toContain('“·and” is most likely (50%)');
    expect(nextTokenCandidates(next, one.header.sides[0], 5).some(({ isActual }) => isActual)).toBe(
      false,
    );
  });

  it('distinguishes tokens with the same text by their probability', () => {
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
    expect(
      nextTokenCandidates(next, one.header.sides[0], 1).map(({ isActual }) => isActual),
    ).toEqual([false, true]);
  });

  it('has a timeline to go to any token, with pointer and keyboard', async () => {
    const drawing = generation.draw(await loadFrame(generation, capture(), { step: 2 }));
    const [first] = drawing.targets;
    expect(first.key).toBe('generation/track/2');
    const next = drawing.targetAt?.(first.x + first.w * 1.5, first.y + 5);
    expect(next?.pick).toEqual({ step: 3 });
    expect(next?.preview).toEqual({ step: 3 });
    expect(next?.tooltip?.()).toEqual(['“·away”, token 3', 'probability 50%']);
    expect(drawing.targetAt?.(first.x + first.w * 3.5, first.y + 5)?.label).toBe(
      'Prediction after the text',
    );
    expect(drawing.targetAt?.(first.x - first.w * 1.5, first.y + 5)).toBeNull();
  });

  it('shows source and generated text of an encoder-decoder', async () => {
    const two = seq2seq();
    expect(generation.layers?.(two, DEFAULTS)).toEqual([1, 2]);
    const drawing = generation.draw(await loadFrame(generation, two, { layer: 2 }));
    expect(layoutProblems(drawing)).toEqual([]);
    const read = drawing.targets.filter(({ key }) => key?.startsWith('generation/read/'));
    expect(read.map(({ label }) => label)).toEqual([
      '“a”, token 0, attention 0.2500',
      '“long”, token 1, attention 0.7500',
      '“text”, token 2, attention 0',
    ]);
    expect(
      drawing.targets.filter(({ key }) => key?.startsWith('generation/written/')),
    ).toHaveLength(2);
    const { rows } = generation.table(await loadFrame(generation, two, { layer: 2 }));
    expect(rows.map(([part]) => part)).toEqual([
      'source',
      'source',
      'source',
      'prompt',
      'generated',
      'actual next token',
    ]);
    expect(generation.needs(two, DEFAULTS)).toEqual([{ side: 0, layer: 1, parts: ['weights'] }]);
  });

  it('has a valid layout for any width and length', async () => {
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
          makeNext(words),
          1,
        );
        expect(
          layoutProblems(generation.draw(await loadFrame(generation, one, { step }, width))),
        ).toEqual([]);
      }),
      { numRuns: 25 },
    );
  });

  it('has a table of tokens and candidates', async () => {
    const { header, rows } = generation.table(await loadFrame(generation, capture(), { step: 3 }));
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
    expect(rows[5]).toEqual(['actual next token', 3, ' away', '', 0.5]);
  });

  it('shows hostile tokens as plain text', async () => {
    const words = ['<!--', '</script>', '\u202e', '\ud800', 'y'.repeat(10000)];
    const drawing = generation.draw(await loadFrame(generation, capture(words), { step: 5 }, 320));
    expect(layoutProblems(drawing)).toEqual([]);
    expect(drawingTexts(drawing).every((text) => text.length < 300)).toBe(true);
  });
});
