// A capture that cannot be shown; the message is for people.

export class CaptureError extends Error {}

export function fail(message: string): never {
  throw new CaptureError(message);
}
