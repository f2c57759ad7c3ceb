// "#/look?subject=a%2Fb!view=matrix": the page, what is chosen on it, and what the part of it that
// also lives elsewhere (the viewer of look, the claims, the bench) keeps for itself.

export const FIRST = 'runs'; // where an address names no page

export type Fields = Record<string, string[]>;

export interface Route {
  page: string;
  fields: Fields;
  inner: string;
}

const LONGEST = 16000;
const MANY = 64; // values of one name

export function parseRoute(hash: string): Route {
  const text = hash.replace(/^#/, '').slice(0, LONGEST);
  const mark = text.indexOf('!');
  const outer = mark < 0 ? text : text.slice(0, mark);
  const query = outer.indexOf('?');
  const name = (query < 0 ? outer : outer.slice(0, query)).replace(/^\//, '');
  const fields: Fields = Object.create(null) as Fields;
  for (const part of query < 0 ? [] : outer.slice(query + 1).split('&')) {
    const [key, ...rest] = part.split('=');
    const value = decoded(rest.join('='));
    if (!/^[a-z]{1,20}$/.test(key) || !value) continue;
    fields[key] = [...(fields[key] ?? []), value].slice(0, MANY);
  }
  const page = /^[a-z]{1,20}$/.test(name) ? name : FIRST;
  return { page, fields, inner: mark < 0 ? '' : text.slice(mark + 1) };
}

export function printRoute({ page, fields, inner }: Route): string {
  const parts = Object.entries(fields).flatMap(([name, values]) =>
    values.filter(Boolean).map((value) => `${name}=${encoded(value)}`),
  );
  return `/${page}${parts.length ? `?${parts.join('&')}` : ''}${inner ? `!${inner}` : ''}`;
}

export function linkTo(page: string, fields: Fields = {}, inner = ''): string {
  return `#${printRoute({ page, fields, inner })}`;
}

function encoded(text: string): string {
  const whole = text.replace(
    /[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g,
    '\ufffd', // half a surrogate cannot stand in an address
  );
  return encodeURIComponent(whole).replace(/!/g, '%21');
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return '';
  }
}
