// Small PNG files without a canvas, for pictures inside SVG. They are not compressed.

const SIGNATURE = [0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a];
const STORED = 65535; // bytes of a block

// One byte for each cell, its place in the palette; `empty` is the place that is seen through.
export function indexedPng(
  columns: number,
  rows: number,
  places: Uint8Array,
  palette: Uint8Array,
  empty: number,
): Uint8Array {
  const entries = Math.max(palette.length / 3, empty + 1);
  const colours = new Uint8Array(entries * 3);
  colours.set(palette);
  const alpha = new Uint8Array(entries).fill(255);
  alpha[empty] = 0;
  return file(columns, rows, 3, places, columns, [
    ['PLTE', colours],
    ['tRNS', alpha],
  ]);
}

export function colourPng(columns: number, rows: number, rgb: Uint8Array): Uint8Array {
  return file(columns, rows, 2, rgb, columns * 3, []);
}

export function dataAddress(bytes: Uint8Array): string {
  let binary = '';
  for (let i = 0; i < bytes.length; i += 8192)
    binary += String.fromCharCode(...bytes.subarray(i, i + 8192));
  return `data:image/png;base64,${btoa(binary)}`;
}

function file(
  columns: number,
  rows: number,
  kind: number,
  data: Uint8Array,
  width: number,
  more: [string, Uint8Array][],
): Uint8Array {
  const header = new Uint8Array(13);
  const view = new DataView(header.buffer);
  view.setUint32(0, columns);
  view.setUint32(4, rows);
  header.set([8, kind, 0, 0, 0], 8);
  const lines = new Uint8Array(rows * (width + 1)); // each begins with its filter: none
  for (let y = 0; y < rows; y += 1)
    lines.set(data.subarray(y * width, (y + 1) * width), y * (width + 1) + 1);
  const chunks = [
    ['IHDR', header],
    ...more,
    ['IDAT', zlib(lines)],
    ['IEND', new Uint8Array(0)],
  ] as [string, Uint8Array][];
  return join([Uint8Array.from(SIGNATURE), ...chunks.map(([name, bytes]) => chunk(name, bytes))]);
}

function chunk(name: string, data: Uint8Array): Uint8Array {
  const out = new Uint8Array(data.length + 12);
  const view = new DataView(out.buffer);
  view.setUint32(0, data.length);
  for (let i = 0; i < 4; i += 1) out[4 + i] = name.charCodeAt(i);
  out.set(data, 8);
  view.setUint32(data.length + 8, check(out.subarray(4, data.length + 8)));
  return out;
}

// Blocks that are stored as they are.
function zlib(data: Uint8Array): Uint8Array {
  const parts: Uint8Array[] = [Uint8Array.of(0x78, 0x01)];
  for (let i = 0; i < data.length || i === 0; i += STORED) {
    const part = data.subarray(i, i + STORED);
    const last = i + STORED >= data.length ? 1 : 0;
    const size = part.length;
    parts.push(Uint8Array.of(last, size & 255, size >> 8, ~size & 255, (~size >> 8) & 255), part);
  }
  let [a, b] = [1, 0];
  for (let i = 0; i < data.length; i += 1) {
    a = (a + data[i]) % 65521;
    b = (b + a) % 65521;
  }
  parts.push(Uint8Array.of(b >> 8, b & 255, a >> 8, a & 255));
  return join(parts);
}

function join(parts: Uint8Array[]): Uint8Array {
  const out = new Uint8Array(parts.reduce((total, each) => total + each.length, 0));
  let place = 0;
  for (const part of parts) {
    out.set(part, place);
    place += part.length;
  }
  return out;
}

const TABLE = Uint32Array.from({ length: 256 }, (_, i) => {
  let value = i;
  for (let bit = 0; bit < 8; bit += 1) value = value & 1 ? 0xedb88320 ^ (value >>> 1) : value >>> 1;
  return value >>> 0;
});

function check(bytes: Uint8Array): number {
  let value = 0xffffffff;
  for (let i = 0; i < bytes.length; i += 1) value = TABLE[(value ^ bytes[i]) & 255] ^ (value >>> 8);
  return (value ^ 0xffffffff) >>> 0;
}
