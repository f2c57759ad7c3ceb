// Parses server-sent events from a stream whose chunks may end anywhere.

export interface ServerEvent {
  name: string;
  data: string;
}

const MAX_EVENT_LENGTH = 64 * 2 ** 20; // characters

export class EventParser {
  private rest = '';
  private data: string[] = [];
  private name = '';
  private size = 0;
  private started = false;

  // Returns the events that these characters complete.
  push(text: string): ServerEvent[] {
    let buffer = this.rest + text;
    if (!this.started && buffer) {
      this.started = true;
      buffer = buffer.replace(/^\ufeff/, '');
    }
    const events: ServerEvent[] = [];
    let from = 0;
    for (;;) {
      const end = findLineEnd(buffer, from);
      if (!end) break;
      const event = this.parseLine(buffer.slice(from, end.at));
      if (event) events.push(event);
      from = end.next;
    }
    this.rest = buffer.slice(from);
    if (this.rest.length + this.size > MAX_EVENT_LENGTH) throw new Error('An event of the studio is too long.');
    return events;
  }

  private parseLine(line: string): ServerEvent | null {
    if (line === '') return this.completeEvent();
    const colon = line.indexOf(':');
    const field = colon < 0 ? line : line.slice(0, colon); // empty in a comment, which keeps the connection alive
    const value = colon < 0 ? '' : line.slice(colon + 1).replace(/^ /, '');
    if (field === 'event') this.name = value;
    else if (field === 'data') {
      this.data.push(value);
      this.size += value.length;
    }
    return null;
  }

  private completeEvent(): ServerEvent | null {
    const event = this.data.length
      ? { name: this.name || 'message', data: this.data.join('\n') }
      : null;
    this.name = '';
    this.data = [];
    this.size = 0;
    return event;
  }
}

// A line ends with CR, LF or CR LF; a CR at the end of the text may be half of CR LF.
function findLineEnd(text: string, from: number): { at: number; next: number } | null {
  for (let i = from; i < text.length; i += 1) {
    if (text[i] === '\n') return { at: i, next: i + 1 };
    if (text[i] !== '\r') continue;
    if (i + 1 === text.length) return null;
    return { at: i, next: text[i + 1] === '\n' ? i + 2 : i + 1 };
  }
  return null;
}

// Yields events until the stream ends. Calls `onActivity` for every chunk, also for comments.
export async function* readEvents(
  body: ReadableStream<Uint8Array>,
  onActivity: () => void = () => undefined,
): AsyncGenerator<ServerEvent> {
  const parser = new EventParser();
  const decoder = new TextDecoder();
  const reader = body.getReader();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      onActivity();
      yield* parser.push(decoder.decode(value, { stream: true }));
    }
  } finally {
    await reader.cancel().catch(() => undefined);
  }
}
