// What all pages share: start, embedded data, heading, colors and formatted text.

import { render, type ComponentChildren, type VNode } from 'preact';
import { useContext, useLayoutEffect } from 'preact/hooks';
import { PageContext } from '../shared/page-address';
import { theme, type Mode } from '../shared/theme';
import { useColorMode, type ModeChoice } from '../shared/color-mode';
import { COLORS } from './plot-colors';
import { Formula } from './formula';
import { splitMath } from './math-text';

const NAMES = ['page', 'card', 'ink', 'dim', 'rule', 'accent', 'warn', 'good', 'found'];
const EDGE = { light: '#8a8d92', dark: '#74787f' };

export function startPage(make: (root: HTMLElement) => VNode): void {
  const renderPage = (): void => {
    const root = document.getElementById('attnlab') ?? document.body;
    root.textContent = '';
    root.classList.add('attnlab');
    let content: VNode;
    try {
      content = make(root);
    } catch (error) {
      content = <Failure message={error instanceof Error ? error.message : String(error)} />;
    }
    render(content, root);
  };
  if (document.readyState === 'loading') document.addEventListener('DOMContentLoaded', renderPage);
  else renderPage();
}

// The JSON embedded in the page.
export function pageData(id = 'attnlab-data'): unknown {
  const element = document.getElementById(id);
  if (!element) throw new Error('The page contains no data.');
  try {
    return JSON.parse(element.textContent ?? '') as unknown;
  } catch {
    throw new Error('The data of this page is broken: it is not JSON.');
  }
}

function Failure({ message }: { message: string }) {
  return (
    <div class="failure" role="alert">
      <h1>This page cannot be shown</h1>
      <p>{message}</p>
    </div>
  );
}

export function PageHeading({ root, title }: { root: HTMLElement; title: string }) {
  const { alone } = useContext(PageContext);
  const [mode, next] = useColorMode({ root, notebook: false });
  useColors(mode.now, alone);
  return (
    <div class="heading">
      <h1>{title}</h1>
      {alone && <ColorModeButton chosen={mode.chosen} next={next} />}
    </div>
  );
}

export function ColorModeButton({ chosen, next }: { chosen: ModeChoice; next: () => void }) {
  return (
    <button
      type="button"
      class="plainly"
      aria-label={`Colors: ${chosen}`}
      title="Light or dark"
      onClick={next}
    >
      {{ auto: '◐', light: '○', dark: '●' }[chosen]}
    </button>
  );
}

// Sets the color variables of base.css; a page inside the studio uses the studio's.
export function useColors(mode: Mode, own = true): void {
  useLayoutEffect(() => {
    if (!own) return undefined;
    const printing = window.matchMedia('print'); // on white paper
    const colors = (): void => setColors(printing.matches ? 'light' : mode);
    colors();
    printing.addEventListener('change', colors);
    return () => printing.removeEventListener('change', colors);
  }, [mode]);
}

export function setColors(mode: Mode): void {
  const { style } = document.documentElement;
  const { color } = theme(mode);
  for (const name of NAMES) style.setProperty(`--${name}`, color(name));
  for (let i = 0; i < COLORS; i += 1) style.setProperty(`--c${i}`, color(`head${i}`));
  style.setProperty('--edge', EDGE[mode]);
}

// Text whose formulas are typeset. With `letters`, single letters are variables, as in claims.
export function FormattedText({ text, letters }: { text: string; letters?: boolean }) {
  return (
    <bdi>
      {splitMath(text, letters).map((piece, i) =>
        piece.kind === 'text' ? piece.text : <Formula key={i} node={piece.node} />,
      )}
    </bdi>
  );
}

export function NamedBlock({ name, children }: { name: ComponentChildren; children: ComponentChildren }) {
  return (
    <div>
      <h3>{name}</h3>
      {children}
    </div>
  );
}
