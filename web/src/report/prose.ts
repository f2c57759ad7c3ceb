// Texts that others wrote, and the formulas in them, as people read them. All of it is text: only
// ever set as text.

import { visible } from '../shared/text';

const HIDDEN = /[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Zl}\p{Zp}\p{Noncharacter_Code_Point}\u2065\ufff0-\ufff8\u{e0000}-\u{e0fff}]/gu;

// What would turn the direction of a line or hide in it becomes a sign that is seen.
export function plain(text: string): string {
  return text.replace(HIDDEN, (each) =>
    /[\n\t\r]/.test(each) ? ' ' : /[\u200c\u200d]/.test(each) ? each : visible(each),
  );
}

export interface Part {
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

// A letter of its own, a closing bracket or a number, and what is set lower or higher behind it;
// nothing is lowered behind a number: Q4_1 is a name.
const SCRIPT =
  /(?<=(?<![\p{L}_^])[\p{L}]|\d(?!_)|\)|\|)([_^])(\((?:[^()]|\([^()]{1,16}\)){1,24}\)|[-−+]?(?:\d+(?:\.\d+)?|\p{L}[\p{L}\p{N}]*))/gu;

// "u_a^T" becomes u with a lower a and a raised T; names_like_this stay as they are.
export function parts(text: string): Part[] {
  let rest = plain(text);
  for (const [sign, by] of SIGNS) rest = rest.replace(sign, by);
  rest = rest.replace(LETTERS, (name) => GREEK[name]);
  const found: Part[] = [];
  const add = (kind: Part['kind'], piece: string): void => {
    if (piece) found.push({ kind, text: piece });
  };
  while (rest) {
    SCRIPT.lastIndex = 0;
    const match = SCRIPT.exec(rest);
    if (!match) break;
    add('text', rest.slice(0, match.index));
    rest = rest.slice(match.index + match[0].length);
    add(match[1] === '_' ? 'sub' : 'sup', bare(match[2]));
    const more = /^\^(T\b|-?\d+|\([^()]{1,24}\))/.exec(rest); // raised behind lowered
    if (match[1] === '_' && more) {
      add('sup', bare(more[1]));
      rest = rest.slice(more[0].length);
    }
  }
  add('text', rest);
  return found;
}

// The same where nothing can be lowered or raised: "u_a^T", with the signs that can be set.
export function flat(text: string): string {
  const marks = { text: '', sub: '_', sup: '^' };
  return parts(text)
    .map(({ kind, text: piece }) =>
      kind === 'text' || piece.length === 1 ? marks[kind] + piece : `${marks[kind]}(${piece})`,
    )
    .join('');
}

function bare(text: string): string {
  return text.replace(/^\((.*)\)$/, '$1').replace(/-/g, '−');
}
