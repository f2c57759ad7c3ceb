import { deflateSync } from 'node:zlib';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { inflate } from './capture';
import { CaptureError } from './failure';
import type { Header } from './format';
import { Blocks, file, header, layer, opened, raw, sequence } from '../../test-support/made';
import { openFile, openPage, openParts } from './sources';

const WEIGHTS = [0.5, 0.25, 0.25, 0, 1, 0, 1, 0, 0, 0.2, 0.3, 0.5]; // (2, 2, 3)

function made(): [Header, Blocks] {
  const blocks = new Blocks();
  const one = layer(blocks, WEIGHTS, [2, 2, 3], { keys: 1, kind: 'cross', stack: 'decoder' });
  return [header(blocks, [sequence(['a', 'b']), sequence(['x', 'y', 'z'])], [one]), blocks];
}

describe('a capture that was opened', () => {
  it('gives weights by row, by cell, by head and as a mean', async () => {
    const one = await opened(...made());
    const weights = one.weights(0, 0);
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

  it('is not ready before it is loaded', async () => {
    const [head, blocks] = made();
    const one = openFile(file(head, blocks));
    const needs = [{ side: 0, layer: 0, parts: ['weights' as const] }];
    expect(one.ready(needs)).toBe(false);
    expect(() => one.weights(0, 0)).toThrow(CaptureError);
    await Promise.all([one.load(needs), one.load(needs)]);
    expect(one.ready(needs)).toBe(true);
    expect(one.ready([{ side: 0, small: true }])).toBe(false);
  });

  it('opens from header and blocks, as a widget has them', async () => {
    const [head, blocks] = made();
    const bytes = file(head, blocks);
    const packed = blocks.raw.map((each) => new DataView(new Uint8Array(deflateSync(each)).buffer));
    const one = openParts(JSON.stringify(head), packed);
    await one.load([{ side: 0, layer: 0, parts: ['weights'] }]);
    expect(one.weights(0, 0).at(0, 1, 1)).toBe(1);
    expect(() =>
      openFile(new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)),
    ).not.toThrow();
    await expect(
      openParts(head, []).load([{ side: 0, layer: 0, parts: ['weights'] }]),
    ).rejects.toThrow('missing');
  });

  it('opens from a page', async () => {
    const [head, blocks] = made();
    file(head, blocks);
    const scripts = blocks.raw.map((each, i) => ({
      textContent: deflateSync(each).toString('base64'),
      getAttribute: () => String(i),
    }));
    const page = (json: string) =>
      ({
        getElementById: () => ({ textContent: json }),
        querySelectorAll: () => scripts,
      }) as unknown as Document;
    const one = openPage(page(JSON.stringify(head)));
    await one.load([{ side: 0, layer: 0, parts: ['weights'] }]);
    expect(one.weights(0, 0).at(1, 0, 0)).toBe(1);
    scripts[0].textContent = '*** not base 64';
    await expect(
      openPage(page(JSON.stringify(head))).load([{ side: 0, layer: 0, parts: ['weights'] }]),
    ).rejects.toThrow('base 64');
    expect(() => openPage(page('{"format":'))).toThrow('not JSON');
  });
});

describe('files that are wrong', () => {
  const bytes = () => file(...made());

  it('says what is wrong', () => {
    expect(() => openFile(new Uint8Array(0))).toThrow('not an attnlab capture');
    expect(() => openFile(new TextEncoder().encode('attnlab-capture 2\n'.padEnd(40)))).toThrow(
      'version',
    );
    expect(() => openFile(bytes().subarray(0, 60))).toThrow('cut');
    expect(() => openFile(bytes().subarray(0, -1))).toThrow('bytes');
    expect(() => openFile(raw('{"format": 1}', []))).toThrow('not an attnlab capture');
    expect(() => openFile(raw('{', []))).toThrow('not JSON');
    expect(() => openFile(raw('\ud800', []))).toThrow(CaptureError);
  });

  it('never fails in another way, wherever a byte is changed', async () => {
    const good = bytes();
    await fc.assert(
      fc.asyncProperty(fc.nat(good.length - 1), fc.nat(255), async (place, byte) => {
        const bad = good.slice();
        bad[place] = byte;
        try {
          const one = openFile(bad);
          await one.load([{ side: 0, layer: 0, parts: ['weights'] }]);
          one.weights(0, 0).head(0);
        } catch (error) {
          expect(error).toBeInstanceOf(CaptureError);
        }
      }),
      { numRuns: 300 },
    );
  });

  it('opens no more than a block says', async () => {
    const bomb = new Uint8Array(deflateSync(new Uint8Array(5_000_000)));
    await expect(inflate(bomb, 1000, 'Block 0')).rejects.toThrow('more than the 1000 bytes');
    await expect(inflate(bomb, 6_000_000, 'Block 0')).rejects.toThrow('not the 6000000');
    await expect(inflate(Uint8Array.of(1, 2, 3), 10, 'Block 0')).rejects.toThrow('damaged');
  });
});

describe('headers that are wrong', () => {
  const change = (act: (head: any) => void) => {
    const [head, blocks] = made();
    const packed = blocks.raw.map((each) => new Uint8Array(deflateSync(each)));
    head.blocks = packed.map((each, i) => ({ length: each.length, size: blocks.raw[i].length }));
    act(head);
    return () => openFile(raw(JSON.stringify(head), packed));
  };

  it('opens on a view and a layer that there can be', () => {
    const opening = (raw: unknown): (() => unknown) =>
      change((h) => {
        h.opening = raw as Header['opening'];
      });
    expect(opening({ view: 'cross', layer: 0 })).not.toThrow();
    for (const raw of [undefined, null]) expect(opening(raw)).not.toThrow();
    expect(opening({ view: 'cross', layer: 9 })).toThrow('opening, layer');
    expect(opening({ view: 'cross', layer: -1 })).toThrow('opening, layer');
    for (const view of ['', '<b>', 3, 'x'.repeat(21), undefined])
      expect(opening({ view, layer: 0 })).toThrow('opening: view');
    for (const raw of [3, 'cross', []]) expect(opening(raw)).toThrow('opening');
  });

  it('names the place', () => {
    expect(
      change((h) => {
        h.sides[0].layers[0].weights.shape = [2, 2, 4];
      }),
    ).toThrow('shape (2, 2, 4) where (2, 2, 3)');
    expect(
      change((h) => {
        h.sides[0].layers[0].weights.block = 99;
      }),
    ).toThrow('99');
    expect(
      change((h) => {
        h.sides[0].layers[0].weights.offset = 4;
      }),
    ).toThrow('do not fit');
    expect(
      change((h) => {
        h.sides[0].layers[0].queries = 5;
      }),
    ).toThrow('0 to 1');
    expect(
      change((h) => {
        h.sides[0].layers[0].heads = [];
      }),
    ).toThrow('no heads');
    expect(
      change((h) => {
        h.sides[0].layers[0].mask = 0;
      }),
    ).toThrow('mask');
    expect(
      change((h) => {
        h.sides[0].sequences[0].tokens = [];
      }),
    ).toThrow('no tokens');
    expect(
      change((h) => {
        h.blocks[0].size = 2 ** 31;
      }),
    ).toThrow('blocks 0, size');
    expect(
      change((h) => {
        h.blocks[0].size = 10 ** 6;
      }),
    ).toThrow('zlib cannot');
    expect(
      change((h) => {
        h.sides = [];
      }),
    ).toThrow('1 or 2 sides');
    expect(
      change((h) => {
        h.version = 2;
      }),
    ).toThrow('version 2');
    expect(
      change((h) => {
        h.title = 5;
      }),
    ).toThrow('text was expected');
    expect(
      change((h) => {
        h.sides[0].layers[0].excess = -1;
      }),
    ).toThrow('excess: -1 where 0 or more');
    expect(
      change((h) => {
        h.sides[0].layers[0].excess = '1';
      }),
    ).toThrow('excess: a number was expected');
    expect(
      change((h) => {
        h.sides[0].layers[0].difference = -0.5;
      }),
    ).toThrow('difference: -0.5 where 0 or more');
  });

  it('may lack what older files do not have', () => {
    const one = change((h) => {
      delete h.sides[0].layers[0].excess;
    })();
    expect(one.header.sides[0].layers[0].excess).toBeNull();
  });

  it('fails only with a message, whatever stands where', () => {
    const paths = (value: unknown, path: (string | number)[] = []): (string | number)[][] =>
      typeof value === 'object' && value !== null
        ? [path, ...Object.entries(value).flatMap(([key, each]) => paths(each, [...path, key]))]
        : [path];
    const [head, blocks] = made();
    file(head, blocks);
    const all = paths(head).filter((path) => path.length > 0);
    fc.assert(
      fc.property(fc.constantFrom(...all), fc.jsonValue(), (path, value) => {
        try {
          change((h) => {
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
