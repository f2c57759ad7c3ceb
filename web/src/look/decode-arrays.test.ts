import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { addRows, errorBound, decode, readRows, byteSize, valueAt } from './decode-arrays';
import type { ArrayRef, Code } from './capture-format';

const makeRef = (code: Code, shape: number[], error = 0, offset = 0): ArrayRef => ({
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
  it('reads sqrt8: the row scale times the square of the fraction', () => {
    const bytes = Uint8Array.from([...floats(0.5, 2), 0, 51, 255, 255, 102, 0]);
    const coded = decode(makeRef('sqrt8', [2, 3]), bytes);
    expect(
      [...readRows(coded, 0, 2, new Float32Array(6))].map((x) => Number(x.toFixed(6))),
    ).toEqual([0, 0.02, 0.5, 2, 0.32, 0]);
  });

  it('reads signed8: -127 to 127, with sign', () => {
    const coded = decode(makeRef('signed8', [1, 3]), Uint8Array.from([...floats(2), 127, 129, 0]));
    expect([...readRows(coded, 0, 1, new Float32Array(3))]).toEqual([2, -2, 0]);
  });

  it('reads 16 bits with all low bytes first', () => {
    const squareRoot = decode(
      makeRef('sqrt16', [1, 2]),
      Uint8Array.from([...floats(3), 0xff, 0x00, 0xff, 0x80]),
    );
    expect(valueAt(squareRoot, 0, 0)).toBe(3);
    expect(valueAt(squareRoot, 0, 1)).toBeCloseTo(3 * (32768 / 65535) ** 2, 6);
    const linear = decode(
      makeRef('linear16', [1, 2]),
      Uint8Array.from([...floats(3), 0x01, 0xff, 0x80, 0x7f]),
    );
    expect(valueAt(linear, 0, 0)).toBe(-3);
    expect(valueAt(linear, 0, 1)).toBe(3);
  });

  it('reads bits from the highest one, and bytes and floats at any offset', () => {
    expect([
      ...decode(makeRef('bits', [3, 3]), Uint8Array.from([0b10110001, 0b10000000])).codes,
    ]).toEqual([1, 0, 1, 1, 0, 0, 0, 1, 1]);
    expect([
      ...decode(makeRef('f32', [2], 0, 1), Uint8Array.from([9, ...floats(1.5, -2)])).codes,
    ]).toEqual([1.5, -2]);
    expect(byteSize(makeRef('bits', [3, 3]))).toBe(2);
    expect(byteSize(makeRef('signed16', [3, 5]))).toBe(42);
  });
});

// A slow encoder, straight from the definition of the format.
function encode(rows: number[][], code: 'sqrt8' | 'signed8' | 'sqrt16' | 'signed16'): Uint8Array {
  const levels = { sqrt8: 255, signed8: 127, sqrt16: 65535, signed16: 32767 }[code];
  const scales = rows.map((row) => Math.fround(Math.max(...row.map(Math.abs))));
  const codes = rows.flatMap((row, i) =>
    row.map((x) => {
      const fraction = scales[i] > 0 ? x / scales[i] : 0;
      return Math.round(Math.sign(fraction) * Math.sqrt(Math.min(1, Math.abs(fraction))) * levels);
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
  const randomRows = (signed: boolean) =>
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
        fc.property(randomRows(code.startsWith('signed')), (rows) => {
          const error = { sqrt8: 0.004, signed8: 0.0079, sqrt16: 1.6e-5, signed16: 3.1e-5 }[code];
          const coded = decode(makeRef(code, [3, 7], error), encode(rows, code));
          rows.forEach((row, i) =>
            row.forEach((x, j) => {
              expect(Math.abs(valueAt(coded, i, j) - x)).toBeLessThanOrEqual(
                errorBound(coded, i, j) * 1.0001 + 1e-7,
              );
              expect(errorBound(coded, i, j)).toBeLessThanOrEqual(error);
            }),
          );
        }),
        { numRuns: 40 },
      );
    });
  }

  it('fills and adds the same values that value() returns', () => {
    fc.assert(
      fc.property(randomRows(true), (rows) => {
        const coded = decode(makeRef('signed16', [3, 7]), encode(rows, 'signed16'));
        const filled = readRows(coded, 1, 3, new Float32Array(14));
        const doubled = filled.slice();
        addRows(coded, 1, 3, doubled, 0.5);
        for (let i = 0; i < 14; i += 1) {
          expect(filled[i]).toBeCloseTo(valueAt(coded, 1 + Math.floor(i / 7), i % 7), 6);
          expect(doubled[i]).toBeCloseTo(1.5 * filled[i], 6);
        }
      }),
      { numRuns: 20 },
    );
  });
});
