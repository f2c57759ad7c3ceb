import { expect, test } from 'vitest';
import { splitScripts, plainText } from './text-format';

const formatted = (text: string): string =>
  splitScripts(text)
    .map(({ kind, text: piece }) => (kind === 'text' ? piece : `<${kind} ${piece}>`))
    .join('');

test.each([
  ['k_j.q is far above', 'k<sub j>.q is far above'],
  ['p_(t+1) = M p_t', 'p<sub t+1> = M p<sub t>'],
  ['u_b u_b^T - u_c u_c^T)/L^2', 'u<sub b> u<sub b><sup T> − u<sub c> u<sub c><sup T>)/L<sup 2>'],
  ['(n - 1) e^-t', '(n − 1) e<sup −t>'],
  ['e^(1/2)/(2e^(1/2) + n - 2)', 'e<sup 1/2>/(2e<sup 1/2> + n − 2)'],
  ['names_like_this and random_features', 'names_like_this and random_features'],
  ['synthesizer_random', 'synthesizer_random'],
  ['smollm-135m-Q4_1 and Q4_K_M', 'smollm-135m-Q4_1 and Q4_K_M'],
  ['sqrt(d) >> ln n', '√d ≫ ln n'],
  ['|q|^2/sqrt(d)', '|q|<sup 2>/√d'],
  ['10^-9', '10<sup −9>'],
  ['O(n^2 d)', 'O(n<sup 2> d)'],
  ['well-known a-b', 'well-known a-b'],
  ['1/sqrt(features)', '1/√(features)'],
  ['q = m(mu_a + mu_b)', 'q = m(μ<sub a> + μ<sub b>)'],
  ['beta-hard, pity, phi(q).phi(k)', 'beta-hard, pity, φ(q).φ(k)'],
  ['1 / (1 + e^(-m(eps - 1)))', '1 / (1 + e<sup −m(ε − 1)>)'],
  ['W_O.', 'W<sub O>.'],
  ['', ''],
  ['_^_^', '_^_^'],
])('%s', (text, expected) => {
  expect(formatted(text)).toBe(expected);
});

test('invisible characters become visible signs', () => {
  expect(plainText('a\u202eb\u0000c\nd')).toBe('a‹RLO›b␀c d');
  expect(plainText('<b>&amp;</b>')).toBe('<b>&amp;</b>');
  expect(plainText('\ud800')).toBe('‹U+D800›');
});
