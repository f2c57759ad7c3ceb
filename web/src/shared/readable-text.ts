// Makes tokens readable: invisible characters get a sign or a name, long texts are shortened. The
// results are plain text, never HTML.

const MAX_LABEL = 24; // characters
const MAX_TOOLTIP = 1200; // characters
const MAX_CELL = 160; // characters
const MAX_CODE_POINTS = 8; // of one character with its combining marks

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
// characters that are invisible or change how others look
const HIDDEN = new RegExp(
  '[\\p{Cc}\\p{Cf}\\p{Cs}\\p{Zs}\\p{Zl}\\p{Zp}\\p{Noncharacter_Code_Point}\\p{Co}' +
    '\\u034f\\u115f\\u1160\\u17b4\\u17b5\\u2065\\u3164\\uffa0\\ufe00-\\ufe0e\\ufff0-\\ufff8\\u{e0000}-\\u{e0fff}]' +
    '|(?<!\\p{Extended_Pictographic})\\ufe0f',
  'gu',
); // variation selector 16 is allowed after an emoji

// Makes every character visible, without shortening.
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

// For a label: at most `limit` characters, as people count them.
export function short(text: string, limit = MAX_LABEL): string {
  if (text.length <= limit && PLAIN.test(text)) return text;
  // looks only at the beginning of a long text, and at one more character to detect a cut
  const signs = visible(
    text
      .slice(0, limit * MAX_CODE_POINTS + 1)
      .replace(/[\ud800-\udbff]$/, (last) => (text.length > limit * MAX_CODE_POINTS + 1 ? '' : last)),
  );
  const all = graphemes(signs, limit + 1);
  const cut = all.length > limit || text.length > limit * MAX_CODE_POINTS + 1;
  return all.slice(0, limit).join('') + (cut ? '…' : '');
}

// For a tooltip: the whole token, up to a limit.
export function whole(text: string): string {
  if (text.length <= MAX_TOOLTIP) return bounded(visible(text));
  const begin = text.slice(0, MAX_TOOLTIP).replace(/[\ud800-\udbff]$/, '');
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
    const points = segment.length > MAX_CODE_POINTS ? Array.from(segment) : null;
    parts.push(points && points.length > MAX_CODE_POINTS ? points.slice(0, MAX_CODE_POINTS).join('') : segment);
  }
  return parts;
}

// Isolates right-to-left text, so that it does not change the sentence around it.
export function isolate(text: string): string {
  return rightToLeft(text) ? `\u2068${text}\u2069` : text;
}

export function rightToLeft(text: string): boolean {
  return RIGHT_TO_LEFT.test(text);
}

// A token in quotes, for a sentence.
export function quoted(text: string, limit = MAX_LABEL): string {
  return `“${isolate(short(text, limit))}”`;
}

export function matchesSearch(text: string, search: string): boolean {
  return search !== '' && text.toLowerCase().includes(search.toLowerCase());
}

// Four decimals, or an exponent if those would show only zeros.
export function number(value: number, decimals = 4): string {
  if (Number.isNaN(value)) return '–';
  if (!Number.isFinite(value)) return value > 0 ? '∞' : '−∞';
  if (value === 0) return '0';
  const size = Math.abs(value);
  const text =
    size < 10 ** -decimals / 2 || size >= 1e6
      ? size.toExponential(2)
      : size >= 1000
        ? size.toFixed(1)
        : size.toFixed(decimals);
  return (value < 0 ? '−' : '') + text.replace('e-', 'e−').replace('e+', 'e');
}

// A value and its maximal error.
export function rounded(value: number, bound: number): string {
  if (!(bound > 0)) return number(value, 6);
  const decimals = Math.max(3, Math.min(9, -Math.floor(Math.log10(bound))));
  const up = Math.ceil(bound * 10 ** decimals - 1e-9) / 10 ** decimals; // never round an error bound down
  return `${number(value, decimals)} ± ${number(up, decimals)}`;
}

// A weight as a reader needs it: two decimals, or two digits if it is small. An error that would
// change these digits is shown.
export function sensible(value: number, bound = 0): string {
  const size = Math.abs(value);
  if (size > 0 && size < 5e-5 && !(bound > 5e-5)) return '≈0';
  const decimals = size >= 0.1 || size === 0 ? 2 : Math.min(4, 1 - Math.floor(Math.log10(size)));
  const text = number(value, decimals);
  return bound > 0.5 * 10 ** -decimals ? `${text} ± ${number(bound, decimals)}` : text;
}

export function percent(value: number): string {
  return `${number(value * 100, Math.abs(value) < 0.1 ? 2 : 1).replace(/\.0+$/, '')}%`;
}

// "64%" for a sentence; small ones keep a digit.
export function wholePercent(value: number): string {
  const percentage = value * 100;
  return `${Math.abs(percentage) < 1 && percentage !== 0 ? number(percentage, 1) : number(percentage, 0)}%`;
}

// "1 token", "1,024 tokens"
export function count(size: number, word: string): string {
  return `${size.toLocaleString('en')} ${word}${size === 1 ? '' : 's'}`;
}

// For a cell of a table, in which spaces between words stay spaces.
export function inCell(text: string): string {
  const bare =
    text.length > MAX_CELL ? `${text.slice(0, MAX_CELL).replace(/[\ud800-\udbff]$/, '')}…` : text;
  if (bare === '') return '';
  return bounded(
    bare
      .replace(/^ +| +$/g, (ends) => '·'.repeat(ends.length))
      .replace(HIDDEN, (each) => (each === ' ' ? each : sign(each))),
  );
}
