import fc from 'fast-check';
import { expect, test } from 'vitest';
import { flatText, splitMath, type MathNode } from './math-text';

const show = (node: MathNode): string => {
  if (node.kind === 'row') return node.items.map(show).join(' ');
  if (node.kind === 'root') return `root(${show(node.inside)})`;
  if (node.kind !== 'script') return node.text;
  const [sub, sup] = [node.sub, node.sup].map((each) => each && show(each));
  return `${show(node.base)}${sub ? `_{${sub}}` : ''}${sup ? `^{${sup}}` : ''}`;
};
const typeset = (text: string, letters = false): string =>
  splitMath(text, letters).map((piece) => (piece.kind === 'text' ? piece.text : `$${show(piece.node)}$`)).join('');

test.each([
  ['if k_j.q is far above, then c is v_j', 'if $k_{j} · q$ is far above, then $c$ is $v_{j}$'],
  ['p_(t+1) = M p_t', '$p_{t + 1}$ = $M p_{t}$'],
  ['V = (u_b u_b^T - u_c u_c^T)/L^2', '$V$ = $( u_{b} u_{b}^{T} − u_{c} u_{c}^{T} ) / L^{2}$'],
  ['1 / (1 + (n - 1) e^-t)', '$1 / ( 1 + ( n − 1 ) e^{− t} )$'],
  ['e^(1/2)/(2e^(1/2) + n - 2)', '$e^{1 / 2} / ( 2 e^{1 / 2} + n − 2 )$'],
  ['a fraction of A, and a gets more than b', 'a fraction of $A$, and $a$ gets more than $b$'],
  ['u u^T a matrix of rank one', '$u u^{T}$ a matrix of rank one'],
  ["one head's part and self-add-b", "one head's part and self-add-b"],
  ['sqrt(d) >> ln n', '$root(d)$ ≫ $ln n$'],
  ['|q - k|^2/sqrt(d), exp(-|z|^2/2)', '$| q − k |^{2} / root(d)$, $exp ( − | z |^{2} / 2 )$'],
  ['at most 1e-9 or 2.5e-3', 'at most $10^{− 9}$ or $2.5 × 10^{− 3}$'],
  ['q = m(mu_a + mu_b)', '$q$ = $m ( μ_{a} + μ_{b} )$'],
  ['a large alpha, the delta rule', 'a large $α$, the delta rule'],
  ['k ~ N(0, I)', '$k$ ∼ $N ( 0 , I )$'],
  ['sum_j a_tj = 1', '$∑_{j} a_{t j}$ = $1$'],
  ['adding -inf before', 'adding $− ∞$ before'],
  ['any k x k convolution of 3 x 3', 'any $k$ × $k$ convolution of 3 × 3'],
  ['q1 = m mu_a', '$q_{1}$ = $m μ_{a}$'],
  ['e.g. 5 of 7, i.e. most', 'e.g. 5 of 7, i.e. most'],
])('in a claim: %s', (text, expected) => {
  expect(typeset(text, true)).toBe(expected);
});

// What reports hold: names of mechanisms and runs, questions, tokens, numbers with units.
test.each([
  'delta', 'gated_delta', 'delta solves recall', 'softmax, window:window=16', 'names_like_this and random_features',
  'smollm-135m-Q4_1 and Q4_K_M', 'Where was A. B. Smith born?', 'I am happy', 'took 5 s on C', 'vitamin A / B', 'n/a',
  'GPT-2', 'a-b', '_^_^', '', 'pi, phi and beta', '12 m', 'x', 'Mira (A)', '<b>&amp;</b>',
])('text that stays text: %s', (text) => {
  expect(splitMath(text)).toEqual(text ? [{ kind: 'text', text }] : []);
});

test.each([
  ['|q|^2/sqrt(d)', '$| q |^{2} / root(d)$'],
  ['norm |q| = |k|', 'norm $| q |$ = $| k |$'],
  ['n = 512, O(n^2 d)', '$n$ = $512$, $O ( n^{2} d )$'],
  ['1/sqrt(features)', '$1 / root(features)$'],
  ['10^-9', '$10^{− 9}$'],
  ['Rome -> Oslo, 1 - 2', 'Rome → Oslo, 1 − 2'],
])('in a report: %s', (text, expected) => {
  expect(typeset(text)).toBe(expected);
});

test('one line for figures', () => {
  expect(flatText('u_a^T, p_(t+1), |q|^2/sqrt(d)')).toBe('u_a^T, p_(t + 1), |q|^2/√d');
  expect(flatText('delta')).toBe('delta'); // a mechanism
});

test('any text gives pieces, and nothing of it is lost', () => {
  const signs = fc.constantFrom(...'a b x n ( ) [ ] | _ ^ - + = < > / . , ~ 1 2 e sqrt sum exp mu ... é 漢'.split(' '), ' ');
  const bare = (text: string): string => text.replace(/[^\p{Ll}\p{Lo}\d]/gu, '').replace(/sqrt|x/g, '');
  const plain = (node: MathNode): string => {
    if (node.kind === 'row') return node.items.map(plain).join('');
    if (node.kind === 'root') return plain(node.inside);
    if (node.kind === 'script') return plain(node.base) + (node.sub ? plain(node.sub) : '') + (node.sup ? plain(node.sup) : '');
    return { 'μ': 'mu', '∑': 'sum', '×': '', '10': '10' }[node.text] ?? node.text;
  };
  fc.assert(
    fc.property(fc.array(signs, { maxLength: 60 }), (all) => {
      const text = all.join('');
      if (/\de/.test(text) || /_.*\^.*_/.test(text)) return; // 1e5 becomes 10^5; scripts change places
      const pieces = splitMath(text, true);
      const back = pieces.map((piece) => (piece.kind === 'text' ? piece.text : plain(piece.node))).join('');
      expect(bare(back.replaceAll('μ', 'mu'))).toBe(bare(text));
    }),
    { numRuns: 2000 },
  );
  expect(splitMath('('.repeat(5000), true)).toHaveLength(1);
  expect(splitMath('a^'.repeat(5000), true).length).toBeGreaterThan(0);
});
