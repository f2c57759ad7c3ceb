import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { add, bound, decode, fill, size, value } from './decode';
import type { ArrayRef, Code } from './format';

const ref = (code: Code, shape: number[], error = 0, offset = 0): ArrayRef => ({
  block: 0,
  offset,
  shape,
  code,
  error,
});

function floats(...values: number[]): number[] {
  return [...new Uint8Array(Float32Array.from(values).buffer)];
}

describe('codes, by hand', () => {
  it('reads sqrt8: the row float times the square of the share', () => {
    const bytes = Uint8Array.from([...floats(0.5, 2), 0, 51, 255, 255, 102, 0]);
    const coded = decode(ref('sqrt8', [2, 3]), bytes);
    expect([...fill(coded, 0, 2, new Float32Array(6))].map((x) => Number(x.toFixed(6)))).toEqual([
      0, 0.02, 0.5, 2, 0.32, 0,
    ]);
  });

  it('reads signed8: -127 to 127, the sign kept', () => {
    const coded = decode(ref('signed8', [1, 3]), Uint8Array.from([...floats(2), 127, 129, 0]));
    expect([...fill(coded, 0, 1, new Float32Array(3))]).toEqual([2, -2, 0]);
  });

  it('reads 16 bits with all low bytes first', () => {
    const wide = decode(
      ref('sqrt16', [1, 2]),
      Uint8Array.from([...floats(3), 0xff, 0x00, 0xff, 0x80]),
    );
    expect(value(wide, 0, 0)).toBe(3);
    expect(value(wide, 0, 1)).toBeCloseTo(3 * (32768 / 65535) ** 2, 6);
    const linear = decode(
      ref('linear16', [1, 2]),
      Uint8Array.from([...floats(3), 0x01, 0xff, 0x80, 0x7f]),
    );
    expect(value(linear, 0, 0)).toBe(-3);
    expect(value(linear, 0, 1)).toBe(3);
  });

  it('reads bits from the highest on, and bytes and floats at any offset', () => {
    expect([
      ...decode(ref('bits', [3, 3]), Uint8Array.from([0b10110001, 0b10000000])).codes,
    ]).toEqual([1, 0, 1, 1, 0, 0, 0, 1, 1]);
    expect([
      ...decode(ref('f32', [2], 0, 1), Uint8Array.from([9, ...floats(1.5, -2)])).codes,
    ]).toEqual([1.5, -2]);
    expect(size(ref('bits', [3, 3]))).toBe(2);
    expect(size(ref('signed16', [3, 5]))).toBe(42);
  });
});

// Encoded as the format says, the slow way.
function encode(rows: number[][], code: 'sqrt8' | 'signed8' | 'sqrt16' | 'signed16'): Uint8Array {
  const levels = { sqrt8: 255, signed8: 127, sqrt16: 65535, signed16: 32767 }[code];
  const scales = rows.map((row) => Math.fround(Math.max(...row.map(Math.abs))));
  const codes = rows.flatMap((row, i) =>
    row.map((x) => {
      const share = scales[i] > 0 ? x / scales[i] : 0;
      return Math.round(Math.sign(share) * Math.sqrt(Math.min(1, Math.abs(share))) * levels);
    }),
  );
  const low = codes.map((c) => c & 255);
  return Uint8Array.from([
    ...floats(...scales),
    ...low,
    ...(code.endsWith('16') ? codes.map((c) => (c >> 8) & 255) : []),
  ]);
}

describe('rounding', () => {
  const rowsOf = (signed: boolean) =>
    fc.array(
      fc.array(fc.double({ min: signed ? -1 : 0, max: 1, noNaN: true }), {
        minLength: 7,
        maxLength: 7,
      }),
      { minLength: 3, maxLength: 3 },
    );
  for (const code of ['sqrt8', 'signed8', 'sqrt16', 'signed16'] as const) {
    it(`${code} stays within its stated bound`, () => {
      fc.assert(
        fc.property(rowsOf(code.startsWith('signed')), (rows) => {
          const error = { sqrt8: 0.004, signed8: 0.0079, sqrt16: 1.6e-5, signed16: 3.1e-5 }[code];
          const coded = decode(ref(code, [3, 7], error), encode(rows, code));
          rows.forEach((row, i) =>
            row.forEach((x, j) => {
              expect(Math.abs(value(coded, i, j) - x)).toBeLessThanOrEqual(
                bound(coded, i, j) * 1.0001 + 1e-7,
              );
              expect(bound(coded, i, j)).toBeLessThanOrEqual(error);
            }),
          );
        }),
        { numRuns: 40 },
      );
    });
  }

  it('fills and adds what single values give', () => {
    fc.assert(
      fc.property(rowsOf(true), (rows) => {
        const coded = decode(ref('signed16', [3, 7]), encode(rows, 'signed16'));
        const filled = fill(coded, 1, 3, new Float32Array(14));
        const doubled = filled.slice();
        add(coded, 1, 3, doubled, 0.5);
        for (let i = 0; i < 14; i += 1) {
          expect(filled[i]).toBeCloseTo(value(coded, 1 + Math.floor(i / 7), i % 7), 6);
          expect(doubled[i]).toBeCloseTo(1.5 * filled[i], 6);
        }
      }),
      { numRuns: 20 },
    );
  });
});
