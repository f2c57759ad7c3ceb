// Opens a capture: from the page that embeds it, from a file, or from the widget's parts.

import { open, type Capture } from './capture';
import { fail } from './capture-error';
import { validate } from './validate-header';

const MAGIC = 'attnlab-capture 1\n';

// Opens the capture of a page, which holds the header as JSON and each block in base64.
export function openPage(page: Document): Capture {
  const header = page.getElementById('attnlab-header');
  if (!header) fail('This page contains no capture: its header is missing.');
  const blocks = new Map<string, Element>();
  page.querySelectorAll('script[data-block]').forEach((script) => {
    blocks.set(script.getAttribute('data-block') ?? '', script);
  });
  return open(validate(parseJson((header as HTMLElement).textContent ?? '')), (index) => {
    const text = blocks.get(String(index))?.textContent;
    return text == null
      ? fail(`Block ${index} is missing: the page is incomplete.`)
      : fromBase64(text, index);
  });
}

// Opens the bytes of a capture file.
export function openFile(data: ArrayBuffer | ArrayBufferView): Capture {
  const bytes = ArrayBuffer.isView(data)
    ? new Uint8Array(data.buffer, data.byteOffset, data.byteLength)
    : new Uint8Array(data);
  const headerStart = MAGIC.length + 8;
  const magic = String.fromCharCode(...bytes.subarray(0, MAGIC.length));
  if (bytes.length < headerStart || magic !== MAGIC) {
    fail(
      magic.startsWith('attnlab-capture ')
        ? 'This capture has another format version; this page reads version 1.'
        : 'This file is not an attnlab capture.',
    );
  }
  const length = new DataView(bytes.buffer, bytes.byteOffset).getBigUint64(MAGIC.length, true);
  if (length > BigInt(bytes.length - headerStart))
    fail('The file ends within its header: it is incomplete.');
  const headerEnd = headerStart + Number(length);
  let json = '';
  try {
    json = new TextDecoder('utf-8', { fatal: true }).decode(bytes.subarray(headerStart, headerEnd));
  } catch {
    fail('The header is damaged: it is not UTF-8 text.');
  }
  const header = validate(parseJson(json));
  const blockStarts = [headerEnd];
  header.blocks.forEach((block, i) => blockStarts.push(blockStarts[i] + block.length));
  if (blockStarts[blockStarts.length - 1] !== bytes.length) {
    fail(
      `The file has ${bytes.length} bytes, but its header says ${blockStarts[blockStarts.length - 1]}.`,
    );
  }
  return open(header, (index) => bytes.subarray(blockStarts[index], blockStarts[index + 1]));
}

// Opens a header and separate blocks, as the notebook widget receives them.
export function openParts(header: unknown, blocks: unknown): Capture {
  const parsed = validate(typeof header === 'string' ? parseJson(header) : header);
  return open(parsed, (index) => {
    const block: unknown = Array.isArray(blocks) ? blocks[index] : undefined;
    if (ArrayBuffer.isView(block))
      return new Uint8Array(block.buffer, block.byteOffset, block.byteLength);
    return block instanceof ArrayBuffer
      ? new Uint8Array(block)
      : fail(`Block ${index} is missing.`);
  });
}

function parseJson(json: string): unknown {
  try {
    return JSON.parse(json);
  } catch {
    return fail('The header is damaged: it is not JSON.');
  }
}

// Newer browsers have this method, and it is faster.
type Base64Decoder = { fromBase64?: (text: string) => Uint8Array };

function fromBase64(text: string, index: number): Uint8Array {
  let binary = '';
  try {
    const decoded = (Uint8Array as Base64Decoder).fromBase64?.(text);
    if (decoded) return decoded;
    binary = atob(text);
  } catch {
    fail(`Block ${index} is damaged: it is not base64.`);
  }
  const bytes = new Uint8Array(binary.length);
  for (let i = 0; i < binary.length; i += 1) bytes[i] = binary.charCodeAt(i);
  return bytes;
}
