import { expect, test } from 'vitest';
import type { Opened } from '../capture';
import { asking } from '../asking';
import { layerName } from '../names';
import { cross } from './cross';
import { Blocks, framed, layer, opened, sequence, side } from '../../../test-support/fake';
import { heads } from './heads';

// A decoder that copies "tool" and "maps": the query before each looks at it.
function copying(): Opened {
  const blocks = new Blocks();
  const between = { stack: 'decoder', kind: 'cross', queries: 1, keys: 0 } as const;
  const looks = [0, 1, 0, 0, 0, 1, 1, 0, 0];
  const next = {
    sequence: 1,
    top: [[['tool', 0.9]], [['maps', 0.9]], [['<end>', 0.6]]] as [string, number][][],
    actual: [0.9, 0.9, null],
  };
  return opened(blocks, [
    side(
      blocks,
      [
        sequence('source', ['a', 'tool', 'maps']),
        { ...sequence('target', ['<end>', 'tool', 'maps']), prompt: 1 },
      ],
      [
        layer(blocks, [1, 3, 3], [1, 0, 0, 0, 1, 0, 0, 0, 1], { name: 'encoder.0' }),
        layer(blocks, [1, 3, 3], looks, { ...between, name: 'decoder.0.cross' }),
        layer(blocks, [1, 3, 3], looks, { ...between, name: 'copy' }),
      ],
      { next },
    ),
  ]);
}

test('a written word stands beside the word that was read for it', async () => {
  const rows = cross.table(await framed(cross, copying(), { view: 'cross', layer: 2 })).rows;
  const pairs = rows.map(([, , query, , key]) => [query, key]);
  expect(pairs.sort()).toEqual([['<end>', 'a'], ['maps', 'maps'], ['tool', 'tool']]);
});

test('tokens of self-attention, and of a text that nobody writes, are called by themselves', async () => {
  const capture = copying();
  const rows = heads.table(await framed(heads, capture, { layer: 0 })).rows;
  expect(rows.map(([, , query, , key]) => query === key)).toEqual([true, true, true]);
  const [one] = capture.header.sides;
  expect(asking({ ...one, next: null }, one.layers[2])).toBe(one.sequences[1]);
  expect(asking(one, one.layers[2])).toBe(asking(one, one.layers[1]));
  expect(asking(one, one.layers[2]).prompt).toBe(0);
});

test('the copy head has its own name', () => {
  const [one] = copying().header.sides;
  expect(one.layers.map((_, i) => layerName(one, i))).toEqual([
    'encoder 0',
    'decoder 0 cross',
    'copy',
  ]);
});
