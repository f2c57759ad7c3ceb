// Reads and writes addresses such as "#/look?subject=a%2Fb!view=matrix": the page, its fields, and
// after "!" the address of an embedded page (the viewer of look, the claims, a report).

export const DEFAULT_PAGE = 'runs'; // for an address without a page

export type Fields = Record<string, string[]>;

export interface Route {
  page: string;
  fields: Fields;
  inner: string;
}

const MAX_LENGTH = 16000;
const MAX_VALUES = 64; // of one field

export function parseRoute(hash: string): Route {
  const text = hash.replace(/^#/, '').slice(0, MAX_LENGTH);
  const mark = text.indexOf('!');
  const outer = mark < 0 ? text : text.slice(0, mark);
  const query = outer.indexOf('?');
  const name = (query < 0 ? outer : outer.slice(0, query)).replace(/^\//, '');
  const fields: Fields = Object.create(null) as Fields;
  for (const part of query < 0 ? [] : outer.slice(query + 1).split('&')) {
    const [key, ...rest] = part.split('=');
    const value = decode(rest.join('='));
    if (!/^[a-z]{1,20}$/.test(key) || !value) continue;
    fields[key] = [...(fields[key] ?? []), value].slice(0, MAX_VALUES);
  }
  const page = /^[a-z]{1,20}$/.test(name) ? name : DEFAULT_PAGE;
  return { page, fields, inner: mark < 0 ? '' : text.slice(mark + 1) };
}

export function printRoute({ page, fields, inner }: Route): string {
  const parts = Object.entries(fields).flatMap(([name, values]) =>
    values.filter(Boolean).map((value) => `${name}=${encode(value)}`),
  );
  return `/${page}${parts.length ? `?${parts.join('&')}` : ''}${inner ? `!${inner}` : ''}`;
}

export function linkTo(page: string, fields: Fields = {}, inner = ''): string {
  return `#${printRoute({ page, fields, inner })}`;
}

function encode(text: string): string {
  const whole = text.replace(
    /[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g,
    '\ufffd', // an address cannot contain a lone surrogate
  );
  return encodeURIComponent(whole).replace(/!/g, '%21');
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return '';
  }
}
