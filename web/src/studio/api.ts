// Asking the studio's server. What it refuses comes as its own sentence.

import { isRecord } from '../report/plot';
import { eventsOf, type Heard } from './sse';

export class Refused extends Error {
  constructor(
    message: string,
    readonly status: number,
  ) {
    super(message);
  }
}

// It did not answer at all.
export class Silent extends Error {}

const SILENCE = 'The studio does not answer. Does “attnlab studio” still run in its terminal?';

export interface Sent {
  method?: string;
  json?: unknown;
  body?: Blob;
  signal?: AbortSignal;
}

export async function send(path: string, { method, json, body, signal }: Sent = {}): Promise<Response> {
  const content = json === undefined ? body : JSON.stringify(json);
  const kind = json === undefined ? body?.type || 'application/octet-stream' : 'application/json';
  let response: Response;
  try {
    response = await fetch(path, {
      method: method ?? (content === undefined ? 'GET' : 'POST'),
      body: content,
      headers: content === undefined ? {} : { 'Content-Type': kind },
      signal,
      cache: 'no-store',
      credentials: 'same-origin',
    });
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new Silent(SILENCE);
  }
  if (!response.ok) throw new Refused(await sentenceOf(response), response.status);
  return response;
}

async function sentenceOf(response: Response): Promise<string> {
  try {
    const found: unknown = await response.json();
    if (isRecord(found) && typeof found.error === 'string' && found.error) return found.error;
  } catch {
    // no JSON: its number must do
  }
  if (response.status === 403)
    return 'The studio does not know this window. Open the address that its terminal shows.';
  return `The studio answered with ${response.status} ${response.statusText}`.trim();
}

export async function ask(path: string, sent: Sent = {}): Promise<unknown> {
  const response = await send(path, sent);
  try {
    return await response.json();
  } catch (error) {
    if (sent.signal?.aborted) throw error;
    throw new Silent('The answer of the studio was cut.');
  }
}

export async function* stream(
  path: string,
  sent: Sent = {},
  alive?: () => void,
): AsyncGenerator<Heard> {
  const { body } = await send(path, sent);
  if (!body) throw new Silent('The answer of the studio was empty.');
  try {
    yield* eventsOf(body, alive);
  } catch (error) {
    if (sent.signal?.aborted || error instanceof Refused) throw error;
    throw new Silent(SILENCE);
  }
}

export function query(path: string, values: Record<string, string | number | string[]>): string {
  const parts = Object.entries(values).flatMap(([name, value]) =>
    (Array.isArray(value) ? value : [value]).map((each) => `${name}=${encodeURIComponent(each)}`),
  );
  return `${path}?${parts.join('&')}`;
}

export function told(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

export function parsed(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return null;
  }
}
