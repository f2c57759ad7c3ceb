// Reads and writes fields in an address, such as "a=b&c=d".

const MAX_LENGTH = 8000;

// The last value of a repeated name counts; values with invalid escapes are ignored.
export function parseFields(fragment: string): Map<string, string> {
  const values = new Map<string, string>();
  for (const part of fragment.replace(/^#/, '').slice(0, MAX_LENGTH).split('&')) {
    const [name, ...rest] = part.split('=');
    const value = decodeText(rest.join('='));
    if (rest.length && value !== null) values.set(name, value);
  }
  return values;
}

// Leaves out empty values; the others must be encoded already.
export function printFields(all: [string, string][]): string {
  return all
    .filter(([, value]) => value)
    .map(([name, value]) => `${name}=${value}`)
    .join('&');
}

// Null for an invalid escape.
export function decodeText(text: string): string | null {
  try {
    return decodeURIComponent(text);
  } catch {
    return null;
  }
}

// Replaces lone surrogates, which an address cannot contain.
export function encodeText(text: string): string {
  const halves = /[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g;
  return encodeURIComponent(text.replace(halves, '\ufffd'));
}
