// Embeds a standalone page with its own style sheet in a shadow root, so that the styles of page and
// studio do not affect each other.

import { render, type ComponentChild } from 'preact';
import { useLayoutEffect, useRef, useState } from 'preact/hooks';
import { PageContext, type Address } from '../shared/page-address';

const sheets = new Map<string, CSSStyleSheet>();
const FRAME = ':host { display: block; overflow-wrap: normal; } .attnlab { min-height: 0; }';

function styleSheet(css: string): CSSStyleSheet {
  let sheet = sheets.get(css);
  if (!sheet) {
    sheet = new CSSStyleSheet(); // by script, because the content security policy forbids inline styles
    sheet.replaceSync(css + FRAME);
    sheets.set(css, sheet);
  }
  return sheet;
}

interface Props {
  css: string;
  address: Address;
  show: (root: HTMLElement) => ComponentChild;
}

export function ShadowRootHost({ css, address, show }: Props) {
  const host = useRef<HTMLDivElement>(null);
  const [root, setRoot] = useState<HTMLElement | null>(null);
  useLayoutEffect(() => {
    const shadow = host.current!.attachShadow({ mode: 'open' });
    shadow.adoptedStyleSheets = [styleSheet(css)];
    const inner = document.createElement('div');
    inner.className = 'attnlab';
    shadow.append(inner);
    setRoot(inner);
    return () => render(null, inner);
  }, []);
  useLayoutEffect(() => {
    if (root)
      render(<PageContext.Provider value={{ alone: false, address }}>{show(root)}</PageContext.Provider>, root);
  });
  return <div ref={host} class="isolated" />;
}
