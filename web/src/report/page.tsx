// What every page of this kind begins with: its data, its colours, its address.

import { render, type ComponentChildren, type VNode } from 'preact';
import { useEffect, useLayoutEffect, useRef } from 'preact/hooks';
import { theme, type Mode } from '../theme';
import { useMode } from '../ui/mode';
import { parts } from './prose';

const NAMES = ['page', 'card', 'ink', 'dim', 'rule', 'accent', 'warn', 'good'];
export const COLOURS = 8; // --c0 to --c7, those of heads
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
export function carried(): unknown {
  const element = document.getElementById('attnlab-data');
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
  const [mode, next] = useMode({ root, notebook: false, id: 'page' });
  useLayoutEffect(() => {
    const paper = window.matchMedia('print'); // which is white
    const colours = (): void => setColours(paper.matches ? 'light' : mode.now);
    colours();
    paper.addEventListener('change', colours);
    return () => paper.removeEventListener('change', colours);
  }, [mode.now]);
  return (
    <div class="heading">
      <h1>{title}</h1>
      <button
        type="button"
        class="plainly"
        aria-label={`Colours: ${mode.chosen}`}
        title="Light or dark"
        onClick={next}
      >
        {{ auto: '◐', light: '○', dark: '●' }[mode.chosen]}
      </button>
    </div>
  );
}

function setColours(mode: Mode): void {
  const { style } = document.documentElement;
  const { colour } = theme(mode);
  for (const name of NAMES) style.setProperty(`--${name}`, colour(name));
  for (let i = 0; i < COLOURS; i += 1) style.setProperty(`--c${i}`, colour(`head${i}`));
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

// The address follows what is chosen, and what is chosen follows the address.
export function useAddress(text: string, changed: (text: string) => void): void {
  const act = useRef(changed);
  act.current = changed;
  const written = useRef(window.location.hash.slice(1));
  useEffect(() => {
    const later = setTimeout(() => {
      written.current = text;
      const bare = window.location.pathname + window.location.search;
      try {
        window.history.replaceState(null, '', text ? `#${text}` : bare);
      } catch {
        // a frame without an address of its own: nothing to remember
      }
    }, 120);
    return () => clearTimeout(later);
  }, [text]);
  useEffect(() => {
    const read = (): void => {
      const now = window.location.hash.slice(1);
      if (now !== written.current) act.current(now);
    };
    window.addEventListener('hashchange', read);
    return () => window.removeEventListener('hashchange', read);
  }, []);
}

// "a=b&c=d", what cannot be decoded left out.
export function fields(fragment: string): Map<string, string> {
  const found = new Map<string, string>();
  for (const part of fragment.replace(/^#/, '').slice(0, 8000).split('&')) {
    const [name, ...rest] = part.split('=');
    try {
      if (rest.length) found.set(name, decodeURIComponent(rest.join('=')));
    } catch {
      // half of an escape: as if it were not there
    }
  }
  return found;
}
