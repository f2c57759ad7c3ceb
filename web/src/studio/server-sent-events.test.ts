import fc from 'fast-check';
import { expect, test } from 'vitest';
import { EventParser, readEvents, type ServerEvent } from './server-sent-events';

const parse = (...pieces: string[]): ServerEvent[] => {
  const parser = new EventParser();
  return pieces.flatMap((piece) => parser.push(piece));
};

test('events with names, comments, several lines of data, unknown fields', () => {
  const text = ': awake\n\nid: 7\nevent: token\ndata: {"a":\ndata: 1}\nretry: 9\n\ndata:x\n\n';
  expect(parse(text)).toEqual([
    { name: 'token', data: '{"a":\n1}' },
    { name: 'message', data: 'x' },
  ]);
});

test('an event without data is ignored with its name', () => {
  expect(parse('event: token\n\ndata: x\n\n')).toEqual([{ name: 'message', data: 'x' }]);
});

test('an incomplete event is not returned', () => {
  expect(parse('data: x\n')).toEqual([]);
  expect(parse('data: x\r\n\r')).toEqual([]);
  expect(parse('data: x\r\n\r', '\n')).toEqual([{ name: 'message', data: 'x' }]);
});

test('one space is dropped, more are kept; a byte order mark is ignored', () => {
  expect(parse('\ufeffdata:  two\n\n')).toEqual([{ name: 'message', data: ' two' }]);
});

test('the events do not depend on chunks and line ends', () => {
  const line = fc.string({ unit: 'binary', maxLength: 12 }).map((text) => text.replace(/[\r\n]/g, '~'));
  const one = fc.record({ name: line.filter((name) => name !== ''), lines: fc.array(line, { minLength: 1, maxLength: 3 }) });
  fc.assert(
    fc.property(
      fc.array(one, { maxLength: 4 }),
      fc.constantFrom('\n', '\r\n'),
      fc.array(fc.nat(400), { maxLength: 6 }),
      (events, end, cuts) => {
        const text = events
          .map(({ name, lines }) => [`event: ${name}`, ...lines.map((each) => `data: ${each}`), '', ''].join(end))
          .join('');
        const places = [0, ...cuts.map((cut) => cut % (text.length + 1)).sort((a, b) => a - b), text.length];
        const pieces = places.slice(1).map((place, i) => text.slice(places[i], place));
        expect(parse(...pieces)).toEqual(
          events.map(({ name, lines }) => ({ name, data: lines.join('\n') })),
        );
      },
    ),
  );
}, 60_000);

test('characters split between chunks stay whole', async () => {
  const bytes = new TextEncoder().encode('data: Köln 🦊\n\n');
  const body = new ReadableStream<Uint8Array>({
    start(controller) {
      for (const byte of bytes) controller.enqueue(Uint8Array.of(byte));
      controller.close();
    },
  });
  const events: ServerEvent[] = [];
  let chunks = 0;
  for await (const event of readEvents(body, () => (chunks += 1))) events.push(event);
  expect(events).toEqual([{ name: 'message', data: 'Köln 🦊' }]);
  expect(chunks).toBe(bytes.length);
});
