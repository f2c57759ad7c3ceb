// "a=b&c=d", the part of an address that holds what a person has chosen.

const LONGEST = 8000;

// A name that comes again counts once, the last time; bad escapes are left out.
export function fields(fragment: string): Map<string, string> {
  const found = new Map<string, string>();
  for (const part of fragment.replace(/^#/, '').slice(0, LONGEST).split('&')) {
    const [name, ...rest] = part.split('=');
    const value = decoded(rest.join('='));
    if (rest.length && value !== null) found.set(name, value);
  }
  return found;
}

// Without empty values; these must be encoded already.
export function printFields(all: [string, string][]): string {
  return all
    .filter(([, value]) => value)
    .map(([name, value]) => `${name}=${value}`)
    .join('&');
}

// Null for half of an escape.
export function decoded(text: string): string | null {
  try {
    return decodeURIComponent(text);
  } catch {
    return null;
  }
}

// Half of a surrogate pair cannot stand in an address.
export function encoded(text: string): string {
  const halves = /[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g;
  return encodeURIComponent(text.replace(halves, '\ufffd'));
}
