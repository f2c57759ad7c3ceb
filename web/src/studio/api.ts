// Requests to the studio's server, typed by its OpenAPI description.

import { isRecord } from '../report/plot-data';
import type { Api } from './api-types';
import { readEvents } from './server-sent-events';

// The server answered with an error; the message is the server's.
export class RequestError extends Error {
  constructor(
    message: string,
    readonly status: number,
  ) {
    super(message);
  }
}

// The server did not answer.
export class ConnectionError extends Error {}

const NO_ANSWER = 'The studio does not answer. Is “attnlab studio” still running in its terminal?';

type Endpoint = keyof Api;
type EndpointsWith<P extends string> = { [E in Endpoint]: P extends keyof Api[E] ? E : never }[Endpoint];
type RequestParts<E extends Endpoint> = Omit<Api[E], 'response' | 'events'> & {
  image?: Blob; // the body, if it is a file
  signal?: AbortSignal;
};
// Optional if no part is required.
type Arguments<E extends Endpoint> = object extends RequestParts<E> ? [parts?: RequestParts<E>] : [parts: RequestParts<E>];
type ResponseOf<E extends Endpoint> = Api[E] extends { response: infer R } ? R : never;
type Events<E extends Endpoint> = Api[E] extends { events: infer N } ? N : never;
export type Event<E extends Endpoint> = {
  [N in keyof Events<E>]: { name: N; data: Events<E>[N] };
}[keyof Events<E>];

interface UntypedParts {
  path?: Record<string, string>;
  query?: Record<string, unknown>;
  body?: unknown;
  image?: Blob;
  signal?: AbortSignal;
}

export async function send<E extends Endpoint>(endpoint: E, ...[parts]: Arguments<E>): Promise<Response> {
  const [method, template] = endpoint.split(' ');
  const { path = {}, query = {}, body, image, signal }: UntypedParts = parts ?? {};
  const content = body === undefined ? image : JSON.stringify(body);
  const contentType = body === undefined ? image?.type || 'application/octet-stream' : 'application/json';
  let response: Response;
  try {
    response = await fetch(requestUrl(template, path, query), {
      method,
      body: content,
      headers: content === undefined ? {} : { 'Content-Type': contentType },
      signal,
      cache: 'no-store',
      credentials: 'same-origin',
    });
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new ConnectionError(NO_ANSWER);
  }
  if (!response.ok) throw new RequestError(await readErrorMessage(response), response.status);
  return response;
}

// A list repeats its name; null and undefined values are left out.
export function requestUrl(
  template: string,
  path: Record<string, string>,
  query: Record<string, unknown>,
): string {
  const url = template.replace(/\{(\w+)\}/g, (_, name: string) => encodeURIComponent(path[name]));
  const parts = Object.entries(query).flatMap(([name, value]) =>
    [value ?? []].flat().map((item) => `${name}=${encodeURIComponent(String(item))}`),
  );
  return parts.length ? `${url}?${parts.join('&')}` : url;
}

async function readErrorMessage(response: Response): Promise<string> {
  try {
    const content: unknown = await response.json();
    if (isRecord(content) && typeof content.error === 'string' && content.error) return content.error;
  } catch {
    // not JSON: show the status instead
  }
  if (response.status === 403)
    return 'The studio does not know this window. Open the address that it printed in its terminal.';
  return `The studio answered with ${response.status} ${response.statusText}`.trim();
}

export async function request<E extends EndpointsWith<'response'>>(
  endpoint: E,
  ...parts: Arguments<E>
): Promise<ResponseOf<E>> {
  const response = await send(endpoint, ...parts);
  try {
    return (await response.json()) as ResponseOf<E>;
  } catch (error) {
    if (parts[0]?.signal?.aborted) throw error;
    throw new ConnectionError('The response of the studio is incomplete.');
  }
}

export async function* stream<E extends EndpointsWith<'events'>>(
  endpoint: E,
  parts: RequestParts<E>,
  onActivity?: () => void,
): AsyncGenerator<Event<E>> {
  const { body } = await send(endpoint, ...([parts] as Arguments<E>));
  if (!body) throw new ConnectionError('The response of the studio is empty.');
  try {
    for await (const { name, data } of readEvents(body, onActivity))
      yield { name, data: JSON.parse(data) as unknown } as Event<E>;
  } catch (error) {
    if (parts.signal?.aborted || error instanceof RequestError) throw error;
    throw new ConnectionError(NO_ANSWER);
  }
}

export function errorMessage(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
