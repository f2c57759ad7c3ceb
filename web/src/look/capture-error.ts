// A capture that cannot be shown. The page displays the message.

export class CaptureError extends Error {}

export function fail(message: string): never {
  throw new CaptureError(message);
}
