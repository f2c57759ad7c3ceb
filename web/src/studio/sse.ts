// Server-sent events, as the standard has them, from a stream that may be cut anywhere.

export interface Heard {
  name: string;
  data: string;
}

const LONGEST = 64 * 2 ** 20; // characters of one event: beyond it something is wrong

export class EventParser {
  private rest = '';
  private data: string[] = [];
  private name = '';
  private size = 0;
  private begun = false;

  // The events that these characters complete.
  push(text: string): Heard[] {
    let all = this.rest + text;
    if (!this.begun && all) {
      this.begun = true;
      all = all.replace(/^\ufeff/, '');
    }
    const heard: Heard[] = [];
    let from = 0;
    for (;;) {
      const end = ending(all, from);
      if (!end) break;
      const done = this.line(all.slice(from, end.at));
      if (done) heard.push(done);
      from = end.next;
    }
    this.rest = all.slice(from);
    if (this.rest.length + this.size > LONGEST) throw new Error('An event has no end.');
    return heard;
  }

  private line(line: string): Heard | null {
    if (line === '') return this.whole();
    const colon = line.indexOf(':');
    const field = colon < 0 ? line : line.slice(0, colon); // empty: a comment, to stay awake
    const value = colon < 0 ? '' : line.slice(colon + 1).replace(/^ /, '');
    if (field === 'event') this.name = value;
    else if (field === 'data') {
      this.data.push(value);
      this.size += value.length;
    }
    return null;
  }

  private whole(): Heard | null {
    const heard = this.data.length
      ? { name: this.name || 'message', data: this.data.join('\n') }
      : null;
    this.name = '';
    this.data = [];
    this.size = 0;
    return heard;
  }
}

// A line ends with CR, LF or both; a CR at the end may be half of both.
function ending(text: string, from: number): { at: number; next: number } | null {
  for (let i = from; i < text.length; i += 1) {
    if (text[i] === '\n') return { at: i, next: i + 1 };
    if (text[i] !== '\r') continue;
    if (i + 1 === text.length) return null;
    return { at: i, next: text[i + 1] === '\n' ? i + 2 : i + 1 };
  }
  return null;
}

// Until the stream ends; `alive` hears of every piece, comments too.
export async function* eventsOf(
  body: ReadableStream<Uint8Array>,
  alive: () => void = () => undefined,
): AsyncGenerator<Heard> {
  const parser = new EventParser();
  const decoder = new TextDecoder();
  const reader = body.getReader();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      alive();
      yield* parser.push(decoder.decode(value, { stream: true }));
    }
  } finally {
    await reader.cancel().catch(() => undefined);
  }
}
