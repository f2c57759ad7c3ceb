import { expect, test } from 'vitest';
import type { Capture } from '../capture';
import { querySequence } from '../query-labels';
import { layerName } from '../names';
import { cross } from './cross';
import {
  ArrayBlocks,
  loadFrame,
  makeLayer,
  openCapture,
  makeSequence,
  makeSide,
} from '../../../test-support/view-captures';
import { heads } from './heads';

// A decoder that copies "tool" and "maps": the query before each word attends to it.
function copyingDecoder(): Capture {
  const blocks = new ArrayBlocks();
  const crossAttention = { stack: 'decoder', kind: 'cross', queries: 1, keys: 0 } as const;
  const weights = [0, 1, 0, 0, 0, 1, 1, 0, 0];
  const next = {
    sequence: 1,
    top: [[['tool', 0.9]], [['maps', 0.9]], [['<end>', 0.6]]] as [string, number][][],
    actual: [0.9, 0.9, null],
  };
  return openCapture(blocks, [
    makeSide(
      blocks,
      [
        makeSequence('source', ['a', 'tool', 'maps']),
        { ...makeSequence('target', ['<end>', 'tool', 'maps']), prompt: 1 },
      ],
      [
        makeLayer(blocks, [1, 3, 3], [1, 0, 0, 0, 1, 0, 0, 0, 1], { name: 'encoder.0' }),
        makeLayer(blocks, [1, 3, 3], weights, { ...crossAttention, name: 'decoder.0.cross' }),
        makeLayer(blocks, [1, 3, 3], weights, { ...crossAttention, name: 'copy' }),
      ],
      { next },
    ),
  ]);
}

test('a written word is paired with the source word it attends to', async () => {
  const rows = cross.table(
    await loadFrame(cross, copyingDecoder(), { view: 'cross', layer: 2 }),
  ).rows;
  const pairs = rows.map(([, , query, , key]) => [query, key]);
  expect(pairs.sort()).toEqual([
    ['<end>', 'a'],
    ['maps', 'maps'],
    ['tool', 'tool'],
  ]);
});

test('queries of self-attention, and of a text that is not generated, keep their own tokens', async () => {
  const capture = copyingDecoder();
  const rows = heads.table(await loadFrame(heads, capture, { layer: 0 })).rows;
  expect(rows.map(([, , query, , key]) => query === key)).toEqual([true, true, true]);
  const [side] = capture.header.sides;
  expect(querySequence({ ...side, next: null }, side.layers[2])).toBe(side.sequences[1]);
  expect(querySequence(side, side.layers[2])).toBe(querySequence(side, side.layers[1]));
  expect(querySequence(side, side.layers[2]).prompt).toBe(0);
});

test('the copy layer keeps its own name', () => {
  const [side] = copyingDecoder().header.sides;
  expect(side.layers.map((_, i) => layerName(side, i))).toEqual([
    'encoder 0',
    'decoder 0 cross',
    'copy',
  ]);
});
