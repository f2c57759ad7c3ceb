import { deflateSync } from 'node:zlib';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { inflate } from './capture';
import { CaptureError } from './capture-error';
import type { Header } from './capture-format';
import {
  ArrayBlocks,
  makeFile,
  makeHeader,
  makeLayer,
  openCapture,
  packFile,
  makeSequence,
} from '../../test-support/file-captures';
import { openFile, openPage, openParts } from './open-capture';

const WEIGHTS = [0.5, 0.25, 0.25, 0, 1, 0, 1, 0, 0, 0.2, 0.3, 0.5]; // (2, 2, 3)

function smallCapture(): [Header, ArrayBlocks] {
  const blocks = new ArrayBlocks();
  const weights = makeLayer(blocks, WEIGHTS, [2, 2, 3], {
    keys: 1,
    kind: 'cross',
    stack: 'decoder',
  });
  return [
    makeHeader(blocks, [makeSequence(['a', 'b']), makeSequence(['x', 'y', 'z'])], [weights]),
    blocks,
  ];
}

describe('an open capture', () => {
  it('gives weights by row, by cell, by head and as a mean', async () => {
    const capture = await openCapture(...smallCapture());
    const weights = capture.weights(0, 0);
    expect([weights.heads, weights.queries, weights.keys]).toEqual([2, 2, 3]);
    expect([...weights.row(0, 0)]).toEqual([0.5, 0.25, 0.25]);
    expect(weights.at(1, 1, 2)).toBe(0.5);
    expect([...weights.head(1)].map((x) => Number(x.toFixed(6)))).toEqual([1, 0, 0, 0.2, 0.3, 0.5]);
    expect([...weights.mean([0, 1])].map((x) => Number(x.toFixed(6)))).toEqual([
      0.75, 0.125, 0.125, 0.1, 0.65, 0.25,
    ]);
    expect(weights.sum(1, 1)).toBeCloseTo(1, 6);
    expect(weights.head(1)).toBe(weights.head(1));
  });

  it('is not ready before its blocks are loaded', async () => {
    const [head, blocks] = smallCapture();
    const capture = openFile(makeFile(head, blocks));
    const needs = [{ side: 0, layer: 0, parts: ['weights' as const] }];
    expect(capture.isLoaded(needs)).toBe(false);
    expect(() => capture.weights(0, 0)).toThrow(CaptureError);
    await Promise.all([capture.load(needs), capture.load(needs)]);
    expect(capture.isLoaded(needs)).toBe(true);
    expect(capture.isLoaded([{ side: 0, small: true }])).toBe(false);
  });

  it('opens from a header and blocks, as the widget sends them', async () => {
    const [head, blocks] = smallCapture();
    const bytes = makeFile(head, blocks);
    const packed = blocks.raw.map((each) => new DataView(new Uint8Array(deflateSync(each)).buffer));
    const capture = openParts(JSON.stringify(head), packed);
    await capture.load([{ side: 0, layer: 0, parts: ['weights'] }]);
    expect(capture.weights(0, 0).at(0, 1, 1)).toBe(1);
    expect(() =>
      openFile(new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)),
    ).not.toThrow();
    await expect(
      openParts(head, []).load([{ side: 0, layer: 0, parts: ['weights'] }]),
    ).rejects.toThrow('missing');
  });

  it('opens from a page', async () => {
    const [head, blocks] = smallCapture();
    makeFile(head, blocks);
    const scripts = blocks.raw.map((each, i) => ({
      textContent: deflateSync(each).toString('base64'),
      getAttribute: () => String(i),
    }));
    const page = (json: string) =>
      ({
        getElementById: () => ({ textContent: json }),
        querySelectorAll: () => scripts,
      }) as unknown as Document;
    const capture = openPage(page(JSON.stringify(head)));
    await capture.load([{ side: 0, layer: 0, parts: ['weights'] }]);
    expect(capture.weights(0, 0).at(1, 0, 0)).toBe(1);
    scripts[0].textContent = '*** not base64';
    await expect(
      openPage(page(JSON.stringify(head))).load([{ side: 0, layer: 0, parts: ['weights'] }]),
    ).rejects.toThrow('base64');
    expect(() => openPage(page('{"format":'))).toThrow('not JSON');
  });
});

describe('damaged files', () => {
  const fileBytes = () => makeFile(...smallCapture());

  it('fail with a message that names the problem', () => {
    expect(() => openFile(new Uint8Array(0))).toThrow('not an attnlab capture');
    expect(() => openFile(new TextEncoder().encode('attnlab-capture 2\n'.padEnd(40)))).toThrow(
      'version',
    );
    expect(() => openFile(fileBytes().subarray(0, 60))).toThrow('incomplete');
    expect(() => openFile(fileBytes().subarray(0, -1))).toThrow('bytes');
    expect(() => openFile(packFile('{"format": 1}', []))).toThrow('not an attnlab capture');
    expect(() => openFile(packFile('{', []))).toThrow('not JSON');
    expect(() => openFile(packFile('\ud800', []))).toThrow(CaptureError);
  });

  it('fail only with a CaptureError, whichever byte is changed', async () => {
    const good = fileBytes();
    await fc.assert(
      fc.asyncProperty(fc.nat(good.length - 1), fc.nat(255), async (position, byte) => {
        const bad = good.slice();
        bad[position] = byte;
        try {
          const capture = openFile(bad);
          await capture.load([{ side: 0, layer: 0, parts: ['weights'] }]);
          capture.weights(0, 0).head(0);
        } catch (error) {
          expect(error).toBeInstanceOf(CaptureError);
        }
      }),
      { numRuns: 300 },
    );
  });

  it('never inflate to more bytes than the header declares', async () => {
    const bomb = new Uint8Array(deflateSync(new Uint8Array(5_000_000)));
    await expect(inflate(bomb, 1000, 'Block 0')).rejects.toThrow('more than the 1000 bytes');
    await expect(inflate(bomb, 6_000_000, 'Block 0')).rejects.toThrow('not the 6000000');
    await expect(inflate(Uint8Array.of(1, 2, 3), 10, 'Block 0')).rejects.toThrow('damaged');
  });
});

describe('invalid headers', () => {
  const withHeader = (modify: (head: any) => void) => {
    const [head, blocks] = smallCapture();
    const packed = blocks.raw.map((each) => new Uint8Array(deflateSync(each)));
    head.blocks = packed.map((each, i) => ({ length: each.length, size: blocks.raw[i].length }));
    modify(head);
    return () => openFile(packFile(JSON.stringify(head), packed));
  };

  it('must open on an existing view and layer', () => {
    const opening = (raw: unknown): (() => unknown) =>
      withHeader((h) => {
        h.opening = raw as Header['opening'];
      });
    expect(opening({ view: 'cross', layer: 0 })).not.toThrow();
    for (const raw of [undefined, null]) expect(opening(raw)).not.toThrow();
    expect(opening({ view: 'cross', layer: 9 })).toThrow('opening, layer');
    expect(opening({ view: 'cross', layer: -1 })).toThrow('opening, layer');
    for (const view of ['', '<b>', 3, 'x'.repeat(21), undefined])
      expect(opening({ view, layer: 0 })).toThrow('opening.view');
    for (const raw of [3, 'cross', []]) expect(opening(raw)).toThrow('opening');
  });

  it('fail with a message that names the field', () => {
    expect(
      withHeader((h) => {
        h.sides[0].layers[0].weights.shape = [2, 2, 4];
      }),
    ).toThrow('shape (2, 2, 4); it must be (2, 2, 3)');
    expect(
      withHeader((h) => {
        h.sides[0].layers[0].weights.block = 99;
      }),
    ).toThrow('99');
    expect(
      withHeader((h) => {
        h.sides[0].layers[0].weights.offset = 4;
      }),
    ).toThrow('do not fit');
    expect(
      withHeader((h) => {
        h.sides[0].layers[0].queries = 5;
      }),
    ).toThrow('0 to 1');
    expect(
      withHeader((h) => {
        h.sides[0].layers[0].heads = [];
      }),
    ).toThrow('no heads');
    expect(
      withHeader((h) => {
        h.sides[0].layers[0].mask = 0;
      }),
    ).toThrow('mask');
    expect(
      withHeader((h) => {
        h.sides[0].sequences[0].tokens = [];
      }),
    ).toThrow('no tokens');
    expect(
      withHeader((h) => {
        h.blocks[0].size = 2 ** 31;
      }),
    ).toThrow('blocks 0, size');
    expect(
      withHeader((h) => {
        h.blocks[0].size = 10 ** 6;
      }),
    ).toThrow('zlib cannot');
    expect(
      withHeader((h) => {
        h.sides = [];
      }),
    ).toThrow('1 or 2 sides');
    expect(
      withHeader((h) => {
        h.version = 2;
      }),
    ).toThrow('version 2');
    expect(
      withHeader((h) => {
        h.title = 5;
      }),
    ).toThrow('it must be text');
    expect(
      withHeader((h) => {
        h.sides[0].layers[0].excess = -1;
      }),
    ).toThrow('excess: got -1; it must be 0 or more');
    expect(
      withHeader((h) => {
        h.sides[0].layers[0].excess = '1';
      }),
    ).toThrow('excess: got "1"; it must be a number');
    expect(
      withHeader((h) => {
        h.sides[0].layers[0].difference = -0.5;
      }),
    ).toThrow('difference: got -0.5; it must be 0 or more');
  });

  it('may lack fields that older files do not have', () => {
    const one = withHeader((h) => {
      delete h.sides[0].layers[0].excess;
    })();
    expect(one.header.sides[0].layers[0].excess).toBeNull();
  });

  it('fail only with a CaptureError, whatever value a field has', () => {
    const paths = (value: unknown, path: (string | number)[] = []): (string | number)[][] =>
      typeof value === 'object' && value !== null
        ? [path, ...Object.entries(value).flatMap(([key, each]) => paths(each, [...path, key]))]
        : [path];
    const [head, blocks] = smallCapture();
    makeFile(head, blocks);
    const all = paths(head).filter((path) => path.length > 0);
    fc.assert(
      fc.property(fc.constantFrom(...all), fc.jsonValue(), (path, value) => {
        try {
          withHeader((h) => {
            let at = h;
            for (const key of path.slice(0, -1)) at = at[key];
            at[path[path.length - 1]] = value;
          })();
        } catch (error) {
          expect(error).toBeInstanceOf(CaptureError);
        }
      }),
      { numRuns: 500 },
    );
  });
});
