// What every page of this kind begins with: its data, its colors, its address.

import { render, type ComponentChildren, type VNode } from 'preact';
import { useContext, useLayoutEffect } from 'preact/hooks';
import { Home } from '../shared/home';
import { theme, type Mode } from '../shared/theme';
import { useMode, type Chosen } from '../shared/mode';
import { COLORS } from './paint';
import { parts } from './prose';

const NAMES = ['page', 'card', 'ink', 'dim', 'rule', 'accent', 'warn', 'good', 'found'];
const EDGE = { light: '#8a8d92', dark: '#74787f' };

export function start(make: (root: HTMLElement) => VNode): void {
  const begin = (): void => {
    const root = document.getElementById('attnlab') ?? document.body;
    root.textContent = '';
    root.classList.add('attnlab');
    let shown: VNode;
    try {
      shown = make(root);
    } catch (error) {
      shown = <Failure message={error instanceof Error ? error.message : String(error)} />;
    }
    render(shown, root);
  };
  if (document.readyState === 'loading') document.addEventListener('DOMContentLoaded', begin);
  else begin();
}

// What the page carries.
export function carried(id = 'attnlab-data'): unknown {
  const element = document.getElementById(id);
  if (!element) throw new Error('The page carries no data.');
  try {
    return JSON.parse(element.textContent ?? '') as unknown;
  } catch {
    throw new Error('The data of this page is broken: it is no JSON.');
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

export function Heading({ root, title }: { root: HTMLElement; title: string }) {
  const { alone } = useContext(Home);
  const [mode, next] = useMode({ root, notebook: false });
  useColors(mode.now, alone);
  return (
    <div class="heading">
      <h1>{title}</h1>
      {alone && <ModeButton chosen={mode.chosen} next={next} />}
    </div>
  );
}

export function ModeButton({ chosen, next }: { chosen: Chosen; next: () => void }) {
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

// The variables of base.css; a part of the studio has the studio's.
export function useColors(mode: Mode, own = true): void {
  useLayoutEffect(() => {
    if (!own) return undefined;
    const paper = window.matchMedia('print'); // which is white
    const colors = (): void => setColors(paper.matches ? 'light' : mode);
    colors();
    paper.addEventListener('change', colors);
    return () => paper.removeEventListener('change', colors);
  }, [mode]);
}

function setColors(mode: Mode): void {
  const { style } = document.documentElement;
  const { color } = theme(mode);
  for (const name of NAMES) style.setProperty(`--${name}`, color(name));
  for (let i = 0; i < COLORS; i += 1) style.setProperty(`--c${i}`, color(`head${i}`));
  style.setProperty('--edge', EDGE[mode]);
}

// Text with its formulas.
export function Prose({ text }: { text: string }) {
  return (
    <bdi>
      {parts(text).map(({ kind, text: piece }, i) => {
        if (kind === 'text') return piece;
        return kind === 'sub' ? <sub key={i}>{piece}</sub> : <sup key={i}>{piece}</sup>;
      })}
    </bdi>
  );
}

export function Named({ name, children }: { name: string; children: ComponentChildren }) {
  return (
    <div>
      <h3>{name}</h3>
      {children}
    </div>
  );
}
