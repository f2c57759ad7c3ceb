// Tokens as people can read them: what is invisible gets a sign or a name, what is long is cut.
// The result is plain text: it is only ever set as text, painted, or escaped.

const SHORT = 24; // characters in a label
const WHOLE = 1200; // characters in a tip
const CELL = 160; // characters in a table
const MARKS = 8; // code points that may stand on one another before the rest is cut

const SIGNS: Record<string, string> = {
  ' ': '·',
  '\n': '⏎',
  '\t': '⇥',
  '\u007f': '␡',
  '\u00a0': '⍽',
};

const NAMES: Record<number, string> = {
  0x00ad: 'soft hyphen',
  0x034f: 'CGJ',
  0x061c: 'ALM',
  0x115f: 'filler',
  0x1160: 'filler',
  0x17b4: 'AQ',
  0x17b5: 'AA',
  0x180e: 'MVS',
  0x200b: 'ZWSP',
  0x200c: 'ZWNJ',
  0x200d: 'ZWJ',
  0x200e: 'LRM',
  0x200f: 'RLM',
  0x2028: 'line',
  0x2029: 'paragraph',
  0x202a: 'LRE',
  0x202b: 'RLE',
  0x202c: 'PDF',
  0x202d: 'LRO',
  0x202e: 'RLO',
  0x2060: 'WJ',
  0x2061: 'apply',
  0x2062: 'times',
  0x2063: 'separator',
  0x2064: 'plus',
  0x2066: 'LRI',
  0x2067: 'RLI',
  0x2068: 'FSI',
  0x2069: 'PDI',
  0x3000: 'wide space',
  0x3164: 'filler',
  0xfeff: 'BOM',
  0xffa0: 'filler',
};

const RIGHT_TO_LEFT = new RegExp(
  '[\\u0590-\\u08ff\\u200f\\u202b\\u202e\\u2067\\ufb1d-\\ufdff\\ufe70-\\ufeff' +
    '\\u{10800}-\\u{10fff}\\u{1e800}-\\u{1efff}]',
  'u',
);
const PLAIN = /^[!-~]+$/;
// what has no look of its own, or changes how others look
const HIDDEN = new RegExp(
  '[\\p{Cc}\\p{Cf}\\p{Cs}\\p{Zs}\\p{Zl}\\p{Zp}\\p{Noncharacter_Code_Point}\\p{Co}' +
    '\\u034f\\u115f\\u1160\\u17b4\\u17b5\\u2065\\u3164\\uffa0\\ufe00-\\ufe0e\\ufff0-\\ufff8\\u{e0000}-\\u{e0fff}]' +
    '|(?<!\\p{Extended_Pictographic})\\ufe0f',
  'gu',
); // what makes a sign an emoji may do so

// Every character to be seen, however long it is.
export function visible(text: string): string {
  if (PLAIN.test(text)) return text;
  if (text === '') return '‹empty›';
  const signs = text.replace(HIDDEN, sign);
  return /^\p{M}/u.test(signs) ? `◌${signs}` : signs;
}

function sign(character: string): string {
  const known = SIGNS[character];
  if (known) return known;
  const code = character.codePointAt(0) ?? 0;
  if (code < 0x20) return String.fromCharCode(0x2400 + code);
  if (NAMES[code]) return `‹${NAMES[code]}›`;
  if (code >= 0xfe00 && code <= 0xfe0f) return `‹VS${code - 0xfe00 + 1}›`;
  return `‹U+${code.toString(16).toUpperCase().padStart(4, '0')}›`;
}

// For a label: at most `limit` characters as a person counts them.
export function short(text: string, limit = SHORT): string {
  if (text.length <= limit && PLAIN.test(text)) return text;
  // never a walk over 10,000 characters, and one more so that a cut is known
  const signs = visible(
    text
      .slice(0, limit * MARKS + 1)
      .replace(/[\ud800-\udbff]$/, (last) => (text.length > limit * MARKS + 1 ? '' : last)),
  );
  const all = graphemes(signs, limit + 1);
  const cut = all.length > limit || text.length > limit * MARKS + 1;
  return all.slice(0, limit).join('') + (cut ? '…' : '');
}

// For a tip: the whole token, within reason.
export function whole(text: string): string {
  if (text.length <= WHOLE) return bounded(visible(text));
  const begin = text.slice(0, WHOLE).replace(/[\ud800-\udbff]$/, '');
  return `${bounded(visible(begin))}… (${text.length.toLocaleString('en')} characters)`;
}

function bounded(signs: string): string {
  return PLAIN.test(signs) ? signs : graphemes(signs, signs.length).join('');
}

const segmenter =
  typeof Intl !== 'undefined' && 'Segmenter' in Intl
    ? new Intl.Segmenter(undefined, { granularity: 'grapheme' })
    : null;

function graphemes(text: string, limit: number): string[] {
  const parts: string[] = [];
  const pieces = segmenter ? segmenter.segment(text) : Array.from(text, (segment) => ({ segment }));
  for (const { segment } of pieces) {
    if (parts.length >= limit) break;
    const points = segment.length > MARKS ? Array.from(segment) : null;
    parts.push(points && points.length > MARKS ? points.slice(0, MARKS).join('') : segment);
  }
  return parts;
}

// For a sentence around a token: its direction stays its own.
export function isolate(text: string): string {
  return rightToLeft(text) ? `\u2068${text}\u2069` : text;
}

export function rightToLeft(text: string): boolean {
  return RIGHT_TO_LEFT.test(text);
}

// A token in a sentence.
export function quoted(text: string, limit = SHORT): string {
  return `“${isolate(short(text, limit))}”`;
}

export function matchesSearch(text: string, search: string): boolean {
  return search !== '' && text.toLowerCase().includes(search.toLowerCase());
}

// Four places behind the point, or powers of ten where those would show nothing.
export function number(value: number, places = 4): string {
  if (Number.isNaN(value)) return '–';
  if (!Number.isFinite(value)) return value > 0 ? '∞' : '−∞';
  if (value === 0) return '0';
  const size = Math.abs(value);
  const text =
    size < 10 ** -places / 2 || size >= 1e6
      ? size.toExponential(2)
      : size >= 1000
        ? size.toFixed(1)
        : size.toFixed(places);
  return (value < 0 ? '−' : '') + text.replace('e-', 'e−').replace('e+', 'e');
}

// A value and how far the truth can be from it.
export function rounded(value: number, bound: number): string {
  if (!(bound > 0)) return number(value, 6);
  const places = Math.max(3, Math.min(9, -Math.floor(Math.log10(bound))));
  const up = Math.ceil(bound * 10 ** places - 1e-9) / 10 ** places; // a bound is never rounded down
  return `${number(value, places)} ± ${number(up, places)}`;
}

export function percent(value: number): string {
  return `${number(value * 100, Math.abs(value) < 0.1 ? 2 : 1)} %`;
}

// "1 token", "1,024 tokens"
export function count(size: number, word: string): string {
  return `${size.toLocaleString('en')} ${word}${size === 1 ? '' : 's'}`;
}

// For a cell of a table, where a space between words is a space.
export function inCell(text: string): string {
  const bare =
    text.length > CELL ? `${text.slice(0, CELL).replace(/[\ud800-\udbff]$/, '')}…` : text;
  if (bare === '') return '';
  return bounded(
    bare
      .replace(/^ +| +$/g, (ends) => '·'.repeat(ends.length))
      .replace(HIDDEN, (each) => (each === ' ' ? each : sign(each))),
  );
}
