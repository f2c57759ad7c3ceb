// Makes texts from files safe to show, and formats the formulas in them. The results are plain text,
// never HTML.

import { visible } from '../shared/readable-text';

const HIDDEN = /[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Zl}\p{Zp}\p{Noncharacter_Code_Point}\u2065\ufff0-\ufff8\u{e0000}-\u{e0fff}]/gu;

// Replaces characters that are invisible or change the direction of text by visible signs.
export function plainText(text: string): string {
  return text.replace(HIDDEN, (each) =>
    /[\n\t\r]/.test(each) ? ' ' : /[\u200c\u200d]/.test(each) ? each : visible(each),
  );
}

export interface TextPart {
  kind: 'text' | 'sub' | 'sup';
  text: string;
}

const SIGNS: [RegExp, string][] = [
  [/ - /g, ' − '],
  [/<->/g, '↔'],
  [/->/g, '→'],
  [/<=/g, '≤'],
  [/>=/g, '≥'],
  [/>>/g, '≫'],
  [/<</g, '≪'],
  [/\bsqrt\(([A-Za-z]|\d+)\)/g, '√$1'],
  [/\bsqrt\(/g, '√('],
];

const GREEK: Record<string, string> = {
  alpha: 'α',
  beta: 'β',
  delta: 'δ',
  eps: 'ε',
  lambda: 'λ',
  mu: 'μ',
  omega: 'ω',
  phi: 'φ',
  pi: 'π',
  sigma: 'σ',
  theta: 'θ',
};
const LETTERS = new RegExp(`(?<![\\p{L}_-])(${Object.keys(GREEK).join('|')})(?![\\p{L}-])`, 'gu');

// A single letter, a closing bracket or a number, followed by a subscript or superscript. A number has
// no subscript: Q4_1 is a name.
const SCRIPT =
  /(?<=(?<![\p{L}_^])[\p{L}]|\d(?!_)|\)|\|)([_^])(\((?:[^()]|\([^()]{1,16}\)){1,24}\)|[-−+]?(?:\d+(?:\.\d+)?|\p{L}[\p{L}\p{N}]*))/gu;

// Splits "u_a^T" into u, subscript a and superscript T; names_like_this stay whole.
export function splitScripts(text: string): TextPart[] {
  let rest = plainText(text);
  for (const [sign, by] of SIGNS) rest = rest.replace(sign, by);
  rest = rest.replace(LETTERS, (name) => GREEK[name]);
  const pieces: TextPart[] = [];
  const add = (kind: TextPart['kind'], piece: string): void => {
    if (piece) pieces.push({ kind, text: piece });
  };
  while (rest) {
    SCRIPT.lastIndex = 0;
    const match = SCRIPT.exec(rest);
    if (!match) break;
    add('text', rest.slice(0, match.index));
    rest = rest.slice(match.index + match[0].length);
    add(match[1] === '_' ? 'sub' : 'sup', bare(match[2]));
    const more = /^\^(T\b|-?\d+|\([^()]{1,24}\))/.exec(rest); // a superscript after a subscript
    if (match[1] === '_' && more) {
      add('sup', bare(more[1]));
      rest = rest.slice(more[0].length);
    }
  }
  add('text', rest);
  return pieces;
}

// The same as one plain text, such as "u_a^T", where subscripts are not possible.
export function flatText(text: string): string {
  const marks = { text: '', sub: '_', sup: '^' };
  return splitScripts(text)
    .map(({ kind, text: piece }) =>
      kind === 'text' || piece.length === 1 ? marks[kind] + piece : `${marks[kind]}(${piece})`,
    )
    .join('');
}

function bare(text: string): string {
  return text.replace(/^\((.*)\)$/, '$1').replace(/-/g, '−');
}
