// Opening a capture: from the page that carries it, or from the bytes of a file.

import { open, type Opened } from './capture';
import { fail } from './failure';
import { validate } from './validate';

const MAGIC = 'attnlab-capture 1\n';

// A page: the header as JSON and each block in base 64, both in scripts that do not run.
export function openPage(page: Document): Opened {
  const header = page.getElementById('attnlab-header');
  if (!header) fail('This page carries no capture: its header is missing.');
  const blocks = new Map<string, Element>();
  page.querySelectorAll('script[data-block]').forEach((each) => {
    blocks.set(each.getAttribute('data-block') ?? '', each);
  });
  return open(validate(parse((header as HTMLElement).textContent ?? '')), (index) => {
    const text = blocks.get(String(index))?.textContent;
    return text == null
      ? fail(`Block ${index} is missing: the page was cut.`)
      : fromBase64(text, index);
  });
}

// A file of attnlab, whole.
export function openFile(data: ArrayBuffer | ArrayBufferView): Opened {
  const bytes = ArrayBuffer.isView(data)
    ? new Uint8Array(data.buffer, data.byteOffset, data.byteLength)
    : new Uint8Array(data);
  const begin = MAGIC.length + 8;
  const magic = String.fromCharCode(...bytes.subarray(0, MAGIC.length));
  if (bytes.length < begin || magic !== MAGIC) {
    fail(
      magic.startsWith('attnlab-capture ')
        ? 'This capture has another version; this page reads version 1.'
        : 'This file is not an attnlab capture.',
    );
  }
  const length = new DataView(bytes.buffer, bytes.byteOffset).getBigUint64(MAGIC.length, true);
  if (length > BigInt(bytes.length - begin)) fail('The file ends within its header: it was cut.');
  const end = begin + Number(length);
  let json = '';
  try {
    json = new TextDecoder('utf-8', { fatal: true }).decode(bytes.subarray(begin, end));
  } catch {
    fail('The header is not text.');
  }
  const header = validate(parse(json));
  const starts = [end];
  header.blocks.forEach((block, i) => starts.push(starts[i] + block.length));
  if (starts[starts.length - 1] !== bytes.length) {
    fail(
      `The file has ${bytes.length} bytes, but its header speaks of ${starts[starts.length - 1]}.`,
    );
  }
  return open(header, (index) => bytes.subarray(starts[index], starts[index + 1]));
}

// Header and blocks apart, as a notebook's widget has them.
export function openParts(header: unknown, blocks: unknown): Opened {
  const parsed = validate(typeof header === 'string' ? parse(header) : header);
  return open(parsed, (index) => {
    const block: unknown = Array.isArray(blocks) ? blocks[index] : undefined;
    if (ArrayBuffer.isView(block))
      return new Uint8Array(block.buffer, block.byteOffset, block.byteLength);
    return block instanceof ArrayBuffer
      ? new Uint8Array(block)
      : fail(`Block ${index} is missing.`);
  });
}

function parse(json: string): unknown {
  try {
    return JSON.parse(json);
  } catch {
    return fail('The header is damaged: it is not JSON.');
  }
}

// Newer browsers have it, and it is faster.
type Decoder = { fromBase64?: (text: string) => Uint8Array };

function fromBase64(text: string, index: number): Uint8Array {
  let binary = '';
  try {
    const fast = (Uint8Array as Decoder).fromBase64?.(text);
    if (fast) return fast;
    binary = atob(text);
  } catch {
    fail(`Block ${index} is damaged: it is not base 64.`);
  }
  const bytes = new Uint8Array(binary.length);
  for (let i = 0; i < binary.length; i += 1) bytes[i] = binary.charCodeAt(i);
  return bytes;
}
