import fc from 'fast-check';
import { expect, test } from 'vitest';
import { EventParser, eventsOf, type Heard } from './sse';

const parsed = (...pieces: string[]): Heard[] => {
  const parser = new EventParser();
  return pieces.flatMap((piece) => parser.push(piece));
};

test('events with names, comments, several lines of data, unknown fields', () => {
  const text = ': awake\n\nid: 7\nevent: token\ndata: {"a":\ndata: 1}\nretry: 9\n\ndata:x\n\n';
  expect(parsed(text)).toEqual([
    { name: 'token', data: '{"a":\n1}' },
    { name: 'message', data: 'x' },
  ]);
});

test('an event without data is none, and its name is forgotten', () => {
  expect(parsed('event: token\n\ndata: x\n\n')).toEqual([{ name: 'message', data: 'x' }]);
});

test('what has not ended yet is not heard', () => {
  expect(parsed('data: x\n')).toEqual([]);
  expect(parsed('data: x\r\n\r')).toEqual([]);
  expect(parsed('data: x\r\n\r', '\n')).toEqual([{ name: 'message', data: 'x' }]);
});

test('one space is dropped, more are kept; a byte order mark is no data', () => {
  expect(parsed('\ufeffdata:  two\n\n')).toEqual([{ name: 'message', data: ' two' }]);
});

test('wherever the stream is cut, and however lines end, the same is heard', () => {
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
        expect(parsed(...pieces)).toEqual(
          events.map(({ name, lines }) => ({ name, data: lines.join('\n') })),
        );
      },
    ),
  );
}, 60_000);

test('letters that are cut in the middle of their bytes stay whole', async () => {
  const bytes = new TextEncoder().encode('data: Köln 🦊\n\n');
  const body = new ReadableStream<Uint8Array>({
    start(controller) {
      for (const byte of bytes) controller.enqueue(Uint8Array.of(byte));
      controller.close();
    },
  });
  const heard: Heard[] = [];
  let pieces = 0;
  for await (const each of eventsOf(body, () => (pieces += 1))) heard.push(each);
  expect(heard).toEqual([{ name: 'message', data: 'Köln 🦊' }]);
  expect(pieces).toBe(bytes.length);
});
