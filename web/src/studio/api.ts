// Requests to the studio's server, typed by its description. What it refuses comes as its own sentence.

import { isRecord } from '../report/plot';
import type { Api } from './api-types';
import { eventsOf } from './sse';

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

type Endpoint = keyof Api;
type Having<P extends string> = { [E in Endpoint]: P extends keyof Api[E] ? E : never }[Endpoint];
type Given<E extends Endpoint> = Omit<Api[E], 'response' | 'events'> & {
  image?: Blob; // the body, where it is a file
  signal?: AbortSignal;
};
// What may be left out as a whole.
type Rest<E extends Endpoint> = object extends Given<E> ? [given?: Given<E>] : [given: Given<E>];
type Answered<E extends Endpoint> = Api[E] extends { response: infer R } ? R : never;
type Events<E extends Endpoint> = Api[E] extends { events: infer N } ? N : never;
export type Event<E extends Endpoint> = {
  [N in keyof Events<E>]: { name: N; data: Events<E>[N] };
}[keyof Events<E>];

interface Loose {
  path?: Record<string, string>;
  query?: Record<string, unknown>;
  body?: unknown;
  image?: Blob;
  signal?: AbortSignal;
}

export async function send<E extends Endpoint>(endpoint: E, ...[given]: Rest<E>): Promise<Response> {
  const [method, template] = endpoint.split(' ');
  const { path = {}, query = {}, body, image, signal }: Loose = given ?? {};
  const content = body === undefined ? image : JSON.stringify(body);
  const kind = body === undefined ? image?.type || 'application/octet-stream' : 'application/json';
  let response: Response;
  try {
    response = await fetch(addressOf(template, path, query), {
      method,
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

// A list is a name that comes several times; what is null is left out.
export function addressOf(
  template: string,
  path: Record<string, string>,
  query: Record<string, unknown>,
): string {
  const place = template.replace(/\{(\w+)\}/g, (_, name: string) => encodeURIComponent(path[name]));
  const parts = Object.entries(query).flatMap(([name, value]) =>
    [value ?? []].flat().map((each) => `${name}=${encodeURIComponent(String(each))}`),
  );
  return parts.length ? `${place}?${parts.join('&')}` : place;
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

export async function ask<E extends Having<'response'>>(
  endpoint: E,
  ...rest: Rest<E>
): Promise<Answered<E>> {
  const response = await send(endpoint, ...rest);
  try {
    return (await response.json()) as Answered<E>;
  } catch (error) {
    if (rest[0]?.signal?.aborted) throw error;
    throw new Silent('The answer of the studio was cut.');
  }
}

export async function* stream<E extends Having<'events'>>(
  endpoint: E,
  given: Given<E>,
  alive?: () => void,
): AsyncGenerator<Event<E>> {
  const { body } = await send(endpoint, ...([given] as Rest<E>));
  if (!body) throw new Silent('The answer of the studio was empty.');
  try {
    for await (const { name, data } of eventsOf(body, alive))
      yield { name, data: JSON.parse(data) as unknown } as Event<E>;
  } catch (error) {
    if (given.signal?.aborted || error instanceof Refused) throw error;
    throw new Silent(SILENCE);
  }
}

export function told(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
