// Typeset formulas: MathML, which browsers draw themselves and screen readers read.

import type { ComponentChildren } from 'preact';
import { FIXED_SIZE } from '../../shared/mathml';

type Children = { children?: ComponentChildren };

export const Vec = ({ children }: Children) => <mi class="vector">{children}</mi>;
export const Var = ({ children }: Children) => <mi>{children}</mi>;
export const Op = ({ children }: Children) => <mo {...FIXED_SIZE}>{children}</mo>;
export const Num = ({ children }: Children) => <mn>{children}</mn>;
export const Word = ({ children }: Children) => <mtext>{children}</mtext>;

export const Sub = ({ of, at }: { of: ComponentChildren; at: ComponentChildren }) => (
  <msub>
    <mrow>{of}</mrow>
    <mrow>{at}</mrow>
  </msub>
);

export const Frac = ({ top, bottom }: { top: ComponentChildren; bottom: ComponentChildren }) => (
  <mfrac>
    <mrow>{top}</mrow>
    <mrow>{bottom}</mrow>
  </mfrac>
);

export const Sum = ({ over }: { over: ComponentChildren }) => (
  <munder>
    <mo largeop movablelimits={false}>
      ∑
    </mo>
    <mrow>{over}</mrow>
  </munder>
);

// A formula of its own line. `label` is what a screen reader without MathML says.
export const Formula = ({ label, children }: Children & { label: string }) => (
  <div class="formula">
    <math display="block" aria-label={label}>
      <mrow>{children}</mrow>
    </math>
  </div>
);
