// Finds the formulas in a plain text, such as "1 / (1 + (n - 1) e^-t)", and parses them into trees
// that `FormattedText` typesets. What is not certainly a formula stays text: a report holds names,
// questions and tokens of users.

import { plainText } from './text-format';

export type MathNode =
  | { kind: 'id' | 'number' | 'operator' | 'word' | 'function'; text: string }
  | { kind: 'row'; items: MathNode[] }
  | { kind: 'root'; inside: MathNode }
  | { kind: 'script'; base: MathNode; sub: MathNode | null; sup: MathNode | null };

export type TextPiece = { kind: 'text'; text: string } | { kind: 'math'; node: MathNode };

const GREEK: Record<string, string> = {
  alpha: 'α', beta: 'β', delta: 'δ', eps: 'ε', lambda: 'λ', mu: 'μ', omega: 'ω', phi: 'φ', Phi: 'Φ',
  pi: 'π', sigma: 'σ', tau: 'τ', theta: 'θ',
}; // prettier-ignore
const FUNCTIONS = new Set(['exp', 'ln', 'log', 'log2', 'cos', 'sin', 'tanh', 'softmax', 'max', 'min', 'sum', 'trace', 'rank']);
const RELATIONS: Record<string, string> = {
  '=': '=', '<': '<', '>': '>', '<=': '≤', '>=': '≥', '<<': '≪', '>>': '≫', '~': '∼', '->': '→', '<-': '←', '<->': '↔',
}; // prettier-ignore
const ADDITIVE: Record<string, string> = { '+': '+', '-': '−', '−': '−' };
const PRODUCTS: Record<string, string> = { '/': '/', '*': '∗', '×': '×' };
// What follows a variable named like the article, and never the article itself.
const AFTER_VARIABLE = /^(?:[,;:.)]|$| (?:is|are|be|and|or|of|in|than|from|if|at|as|to|for|when|has|gets|goes|wins|alone|with|by|on|itself)\b| [=<>~+/−-])/;
const MAX_DEPTH = 12;
const MAX_FORMULA = 400; // characters

interface Parsed {
  node: MathNode;
  end: number;
  certain: boolean; // cannot be a word or a name
}

const letter = (character: string | undefined): boolean => character !== undefined && /[\p{L}\p{N}_]/u.test(character);

class Parser {
  constructor(
    private readonly text: string,
    private readonly letters: boolean, // single letters are variables
  ) {}

  // A formula that begins here and is as long as possible.
  formula(start: number): Parsed | null {
    return this.row(start, 0);
  }

  // Atoms joined by operators, or side by side.
  private row(start: number, depth: number): Parsed | null {
    if (depth > MAX_DEPTH) return null;
    const first = this.atom(start, depth);
    if (!first) return null;
    const items = [first.node];
    let { end, certain } = first;
    while (end - start < MAX_FORMULA) {
      const joint = this.joint(end);
      const next = joint ? this.atom(joint.end, depth) : this.beside(end, depth, first.node);
      if (!next) break;
      // a relation with a variable is a formula
      const related = joint !== null && (this.letters || joint.isRelation) && (isVariable(items[items.length - 1]) || isVariable(next.node));
      certain ||= related || next.certain;
      items.push(...(joint?.nodes ?? []), next.node);
      end = next.end;
    }
    return { node: items.length === 1 ? items[0] : { kind: 'row', items }, end, certain };
  }

  private joint(at: number): { nodes: MathNode[]; end: number; isRelation: boolean } | null {
    const spaced = /^ (<->|<-|->|<=|>=|<<|>>|[=<>~+−*/-]) (?=\S)/.exec(this.text.slice(at, at + 6));
    if (spaced) {
      const text = RELATIONS[spaced[1]] ?? ADDITIVE[spaced[1]] ?? PRODUCTS[spaced[1]];
      return { nodes: [{ kind: 'operator', text }], end: at + spaced[0].length, isRelation: spaced[1] in RELATIONS };
    }
    const [sign, next] = [this.text[at], this.text[at + 1]];
    if (sign === '/' && next !== undefined && /[\p{L}\d(|√]/u.test(next)) return { nodes: [{ kind: 'operator', text: '/' }], end: at + 1, isRelation: false };
    if ((sign === '.' || sign === '·') && next !== undefined && /[\p{L}(]/u.test(next)) return { nodes: [{ kind: 'operator', text: '·' }], end: at + 1, isRelation: false };
    return null;
  }

  // A factor after a space or, of a number and a bracket, without one: "2 L", "2e^(1/2)", "m(a + b)".
  private beside(at: number, depth: number, first: MathNode): Parsed | null {
    const spaced = this.text[at] === ' ';
    if (!spaced && this.text[at] !== '(') return null;
    const next = this.atom(spaced ? at + 1 : at, depth);
    if (!next) return null;
    if (next.node.kind === 'number' && next.node.text !== '…') return null;
    // "5 s" and "at 3 x" are a number with a unit, or a word
    if (spaced && first.kind === 'number' && !next.certain) return null;
    if (spaced && !depth && !this.letters && !next.certain) return null;
    return next;
  }

  private atom(at: number, depth: number): Parsed | null {
    if (depth > MAX_DEPTH) return null;
    const minus = /^[-−](?=[\p{L}\d(|])/u.test(this.text.slice(at, at + 2)) && !letter(this.text[at - 1]);
    const from = minus ? at + 1 : at;
    const base = this.group(from, depth) ?? this.absolute(from, depth) ?? this.word(from, depth) ?? this.number(from);
    if (!base) return null;
    const whole = this.scripts(base, depth);
    if (!minus) return whole;
    if (!whole.certain && whole.node.kind !== 'number') return null;
    return { ...whole, node: { kind: 'row', items: [{ kind: 'operator', text: '−' }, whole.node] } };
  }

  // "(...)" or "[...]" around formulas with commas.
  private group(at: number, depth: number): Parsed | null {
    const open = this.text[at];
    const close = { '(': ')', '[': ']' }[open];
    if (!close) return null;
    return this.bracketed(at + 1, depth, open, close);
  }

  private bracketed(start: number, depth: number, open: string, close: string): Parsed | null {
    const items: MathNode[] = [{ kind: 'operator', text: open }];
    let [at, certain] = [start, false];
    for (;;) {
      const inner = this.row(at, depth + 1);
      if (!inner) return null;
      items.push(inner.node);
      certain ||= inner.certain;
      if (this.text[inner.end] === close) return { node: { kind: 'row', items: [...items, { kind: 'operator', text: close }] }, end: inner.end + 1, certain };
      const comma = /^, ?/.exec(this.text.slice(inner.end, inner.end + 2));
      if (!comma) return null;
      items.push({ kind: 'operator', text: ',' });
      at = inner.end + comma[0].length;
    }
  }

  private absolute(at: number, depth: number): Parsed | null {
    if (this.text[at] !== '|' || this.text[at + 1] === ' ') return null;
    const inner = this.row(at + 1, depth + 1);
    if (!inner || this.text[inner.end] !== '|') return null;
    const bar: MathNode = { kind: 'operator', text: '|' };
    return { node: { kind: 'row', items: [bar, inner.node, bar] }, end: inner.end + 1, certain: true };
  }

  // A variable, a Greek letter, a function with its argument, or a root.
  private word(at: number, depth: number): Parsed | null {
    if (letter(this.text[at - 1]) || /[\p{L}][-'’]$|^['’]$/u.test(this.text.slice(Math.max(0, at - 2), at))) return null;
    if (this.text[at] === '√') return this.root(at + 1, depth);
    const [name] = /^\p{L}[\p{L}\d]*/u.exec(this.text.slice(at, at + 16)) ?? [''];
    const end = at + name.length;
    if (!name || /^['’]?\p{L}|^-\p{L}/u.test(this.text.slice(end, end + 2))) return null;
    if (name === 'sqrt') return this.text[end] === '(' ? this.root(end, depth) : null;
    if (name === 'inf' && /[-−]/.test(this.text[at - 1] ?? '')) return { node: { kind: 'number', text: '∞' }, end, certain: true };
    if (FUNCTIONS.has(name)) return this.call(name, end, depth);
    const next = this.text[end];
    const greek = Object.hasOwn(GREEK, name) ? GREEK[name] : /^[Α-ω]$/u.test(name) ? name : '';
    if (greek) {
      const related = next === '_' || next === '^' || next === '(' || this.joint(end) !== null || greek === name;
      const certain = related || (this.letters && name !== 'delta' && name !== 'pi');
      return certain || /^ \p{L}(?!\p{L})/u.test(this.text.slice(end, end + 3)) ? { node: { kind: 'id', text: greek }, end, certain } : null;
    }
    const variable = /^(\p{L})(\d{0,2})$/u.exec(name);
    if (!variable) return null;
    const [, sign, digits] = variable;
    if (digits && (next === '_' || !this.letters)) return null; // Q4_1 is a name
    const scripted = (next === '_' || next === '^') && /^.[\p{L}\d(+−-]/u.test(this.text.slice(end, end + 2));
    const base: MathNode = { kind: 'id', text: sign };
    const node: MathNode = digits ? { kind: 'script', base, sub: { kind: 'number', text: digits }, sup: null } : base;
    if (!scripted && !digits && !this.isVariable(sign, end)) return null;
    return { node, end, certain: scripted || this.letters };
  }

  // Whether a single letter is a variable and not the article or a pronoun.
  private isVariable(sign: string, end: number): boolean {
    const after = this.text.slice(end, end + 12);
    return !/[aA]/.test(sign) || AFTER_VARIABLE.test(after) || (sign === 'A' && /^ \p{L}(?!\p{L})/u.test(after));
  }

  private call(name: string, end: number, depth: number): Parsed | null {
    const spaced = this.text[end] === ' ';
    const script = this.text[end] === '_';
    if (!spaced && !script && this.text[end] !== '(' && this.text[end] !== '|') return null;
    const head: MathNode = name === 'sum' ? { kind: 'operator', text: '∑' } : { kind: 'function', text: name };
    const base: Parsed = { node: head, end, certain: true };
    if (script) return this.scripts(base, depth).end > end ? base : null;
    const argument = this.atom(spaced ? end + 1 : end, depth + 1);
    if (!argument || (spaced && !argument.certain && argument.node.kind !== 'number')) return null;
    if (spaced && argument.node.kind === 'number' && name !== 'ln') return null;
    return { node: { kind: 'row', items: [head, argument.node] }, end: argument.end, certain: true };
  }

  private root(at: number, depth: number): Parsed | null {
    const inner = this.group(at, depth + 1);
    if (inner && inner.node.kind === 'row') {
      const inside: MathNode = { kind: 'row', items: inner.node.items.slice(1, -1) };
      return { node: { kind: 'root', inside }, end: inner.end, certain: true };
    }
    const [worded] = /^\((\p{L}+)\)/u.exec(this.text.slice(at, at + 24)) ?? [];
    const [simple] = worded ? [worded] : (/^(?:\p{L}+|\d+)/u.exec(this.text.slice(at, at + 24)) ?? []);
    if (!simple) return null;
    const name = simple.replace(/[()]/g, '');
    const inside: MathNode = { kind: /^\d/.test(name) ? 'number' : name.length > 1 ? 'word' : 'id', text: name };
    return { node: { kind: 'root', inside }, end: at + simple.length, certain: true };
  }

  private number(at: number): Parsed | null {
    if (letter(this.text[at - 1]) || /[.,]/.test(this.text[at - 1] ?? '')) return null;
    if (this.text.startsWith('... ', at)) return { node: { kind: 'number', text: '…' }, end: at + 3, certain: false };
    const [text] = /^\d+(?:,\d{3})*(?:\.\d+)?/.exec(this.text.slice(at, at + 24)) ?? [];
    if (!text) return null;
    const end = at + text.length;
    const [, power] = /^e([-−]?\d{1,3})(?![\d\p{L}])/u.exec(this.text.slice(end, end + 6)) ?? [];
    if (power) return { node: scientific(text, power), end: end + 1 + power.length, certain: true };
    if (/^(?:\p{L}|%|°)/u.test(this.text.slice(end, end + 1))) {
      const factor = /^[a-zL](?:\^|(?![\p{L}\d%]))/u.test(this.text.slice(end, end + 2)) && (this.letters || this.text[end + 1] === '^') ? this.letterFactor(end) : null;
      return factor && { ...factor, node: { kind: 'row', items: [{ kind: 'number', text }, factor.node] } };
    }
    return { node: { kind: 'number', text }, end, certain: false };
  }

  // "2e^(1/2)": a letter directly after a number.
  private letterFactor(at: number): Parsed | null {
    return this.scripts({ node: { kind: 'id', text: this.text[at] }, end: at + 1, certain: true }, 1);
  }

  private scripts(base: Parsed, depth: number): Parsed {
    let [sub, sup]: (MathNode | null)[] = [null, null];
    let { end } = base;
    for (const sign of ['_', '^', '_'] as const) {
      if (this.text[end] !== sign || (sign === '_' ? sub : sup)) continue;
      const script = this.script(end + 1, depth);
      if (!script) break;
      if (sign === '_') sub = script.node;
      else sup = script.node;
      end = script.end;
    }
    if (!sub && !sup) return base;
    if (base.node.kind === 'script') return { node: { kind: 'script', base: base.node, sub, sup }, end, certain: true };
    return { node: { kind: 'script', base: base.node, sub, sup }, end, certain: true };
  }

  private script(at: number, depth: number): { node: MathNode; end: number } | null {
    if (this.text[at] === '(') {
      const inner = this.group(at, depth + 1);
      if (inner && inner.node.kind === 'row') return { node: { kind: 'row', items: inner.node.items.slice(1, -1) }, end: inner.end };
      const [whole, words] = /^\(([^()]{1,24})\)/.exec(this.text.slice(at, at + 26)) ?? [];
      if (!whole) return null;
      // "(t+1)" without spaces
      const apart = new Parser(`(${words.replace(/(?<=[\p{L}\d])([-+]|<=|>=|[<>=])(?=[\p{L}\d])/gu, ' $1 ')})`, true).group(0, depth + 1);
      const node: MathNode = apart?.node.kind === 'row' ? { kind: 'row', items: apart.node.items.slice(1, -1) } : { kind: 'word', text: words };
      return { node, end: at + whole.length };
    }
    const [simple] = /^[-−+]?(?:\d+(?:\.\d+)?|\p{L}[\p{L}\d]*)/u.exec(this.text.slice(at, at + 16)) ?? [];
    if (!simple) return null;
    const bare = simple.replace(/^-/, '−').replace(/^(−?)inf$/, '$1∞');
    const name = Object.hasOwn(GREEK, bare) ? GREEK[bare] : bare;
    return { node: scriptNode(name), end: at + simple.length };
  }
}

// "T" and "ij" are variables, "rest" is a word, "−1" a number.
function scriptNode(name: string): MathNode {
  const [, sign, rest] = /^([+−]?)(.*)$/u.exec(name) ?? ['', '', name];
  const node: MathNode = /^[\d.∞]+$/.test(rest) ? { kind: 'number', text: rest }
    : rest.length <= 2 && !/\d/.test(rest) ? { kind: 'row', items: Array.from(rest, (text) => ({ kind: 'id', text })) }
      : { kind: 'word', text: rest }; // prettier-ignore
  return sign ? { kind: 'row', items: [{ kind: 'operator', text: sign }, node] } : node;
}

const isVariable = (node: MathNode): boolean =>
  node.kind === 'id' || node.kind === 'script' || node.kind === 'root' || (node.kind === 'row' && node.items.some(isVariable));

function scientific(digits: string, power: string): MathNode {
  const sup = scriptNode(power.replace('-', '−'));
  const ten: MathNode = { kind: 'script', base: { kind: 'number', text: '10' }, sub: null, sup };
  if (digits === '1') return ten;
  return { kind: 'row', items: [{ kind: 'number', text: digits }, { kind: 'operator', text: '×' }, ten] };
}

// The pieces of a text. With `letters`, single letters are variables too, as in the texts of claims.
export function splitMath(source: string, letters = false): TextPiece[] {
  const factor = letters ? '(?:\\p{L}|\\d+)' : '\\d+';
  const times = new RegExp(`(?<=(?:^|[\\s(])${factor}) x (?=${factor}(?![\\p{L}\\d]))`, 'gu');
  const text = plainText(source).replace(times, ' × ');
  const parser = new Parser(text, letters);
  const pieces: TextPiece[] = [];
  let [at, from] = [0, 0];
  while (at < text.length) {
    const skipped = /^(?:e\.g\.|i\.e\.|n\/a\b|https?:\S+|`[^`]*`)/.exec(text.slice(at, at + 60));
    if (skipped) {
      at += skipped[0].length;
      continue;
    }
    const formula = letter(text[at - 1]) ? null : parser.formula(at);
    if (!formula?.certain) {
      at += 1;
      continue;
    }
    if (at > from) pieces.push({ kind: 'text', text: withSigns(text.slice(from, at)) });
    pieces.push(...breakable(formula.node));
    at = from = formula.end;
  }
  if (from < text.length) pieces.push({ kind: 'text', text: withSigns(text.slice(from)) });
  return pieces;
}

// Signs outside of formulas.
const withSigns = (text: string): string =>
  text.replace(/ - /g, ' − ').replace(/<->/g, '↔').replace(/->/g, '→').replace(/<=/g, '≤').replace(/>=/g, '≥');

// A long formula in parts with spaces between, so that a line can break at its relations and sums.
function breakable(node: MathNode): TextPiece[] {
  if (node.kind !== 'row') return [{ kind: 'math', node }];
  const breaks = new Set([...Object.values(RELATIONS), '+', '−', '/', '∗']);
  const pieces: TextPiece[] = [];
  let items: MathNode[] = [];
  let depth = 0;
  const flush = (): void => {
    if (items.length) pieces.push({ kind: 'math', node: items.length === 1 ? items[0] : { kind: 'row', items } });
    items = [];
  };
  for (const [i, item] of node.items.entries()) {
    const sign = item.kind === 'operator' ? item.text : '';
    depth += sign === '(' || sign === '[' ? 1 : sign === ')' || sign === ']' ? -1 : 0;
    if (!depth && i && breaks.has(sign) && sign !== '/') {
      flush();
      pieces.push({ kind: 'text', text: ` ${sign} ` });
    } else items.push(item);
  }
  flush();
  return pieces;
}

// A text as one plain line, such as "u_a^T", where formulas cannot be typeset, as in figures.
export const flatText = (text: string): string =>
  splitMath(text).map((piece) => (piece.kind === 'text' ? piece.text : flatMath(piece.node))).join('');

export function flatMath(node: MathNode): string {
  switch (node.kind) {
    case 'row':
      return node.items.map(flatMath).join('').replace(/^ ([−+]) /, '$1');
    case 'root':
      return `√${bracket(flatMath(node.inside))}`;
    case 'script':
      return flatMath(node.base) + (node.sub ? `_${bracket(flatMath(node.sub))}` : '') + (node.sup ? `^${bracket(flatMath(node.sup))}` : '');
    case 'operator':
      return /^[(|)[\]·∑/]$/.test(node.text) ? node.text : node.text === ',' ? ', ' : ` ${node.text} `;
    default:
      return node.text;
  }
}

const bracket = (text: string): string => (text.length === 1 || /^\d+$/.test(text) ? text : `(${text})`);
