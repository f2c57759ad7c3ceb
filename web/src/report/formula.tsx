// A formula within a text: MathML, which browsers draw themselves and screen readers read.

import type { VNode } from 'preact';
import { FIXED_SIZE } from '../shared/mathml';
import type { MathNode } from './math-text';

export function Formula({ node }: { node: MathNode }) {
  return <math>{view(node, 0)}</math>;
}

function view(node: MathNode, key: number): VNode {
  switch (node.kind) {
    case 'row':
      return <mrow key={key}>{node.items.map(view)}</mrow>;
    case 'root':
      return <msqrt key={key}>{view(node.inside, 0)}</msqrt>;
    case 'script':
      return script(node, key);
    case 'number':
      return <mn key={key}>{node.text}</mn>;
    case 'operator':
      return operator(node.text, key);
    case 'function':
      return (
        <mrow key={key}>
          <mi>{node.text}</mi>
          <mspace width="0.14em" />
        </mrow>
      );
    case 'word':
      return <mtext key={key}>{node.text}</mtext>;
    default:
      return <mi key={key}>{node.text}</mi>;
  }
}

// Signs that stand between their factors need no space, brackets do not grow in a line of text.
function operator(text: string, key: number): VNode {
  const tight = /^[/|()[\]]$/.test(text);
  return (
    <mo key={key} {...FIXED_SIZE} {...(tight ? { lspace: '0', rspace: '0' } : {})}>
      {text}
    </mo>
  );
}

function script({ base, sub, sup }: Extract<MathNode, { kind: 'script' }>, key: number): VNode {
  const inside = view(base, 0);
  if (sub && sup)
    return (
      <msubsup key={key}>
        {inside}
        {view(sub, 1)}
        {view(sup, 2)}
      </msubsup>
    );
  return sub ? (
    <msub key={key}>
      {inside}
      {view(sub, 1)}
    </msub>
  ) : (
    <msup key={key}>
      {inside}
      {sup && view(sup, 1)}
    </msup>
  );
}
