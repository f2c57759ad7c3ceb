// Where a page lives: alone in its window, or as a part of the studio.

import { createContext } from 'preact';
import { useContext, useEffect, useRef } from 'preact/hooks';

// What keeps what a person has chosen, so that a link restores it.
export interface Address {
  read: () => string | null; // null: it is another page's now
  write: (text: string) => void;
  link: (text: string) => string;
}

export function replaceFragment(fragment: string): void {
  const bare = window.location.pathname + window.location.search;
  try {
    window.history.replaceState(window.history.state, '', fragment ? `#${fragment}` : bare);
  } catch {
    // a frame without an address of its own: nothing to remember
  }
}

const WHOLE: Address = {
  read: () => window.location.hash.slice(1),
  write: replaceFragment,
  link: (text) => `#${text}`,
};

interface HomeOf {
  alone: boolean; // it has colors and a button for them
  address: Address;
}

export const Home = createContext<HomeOf>({ alone: true, address: WHOLE });

// The address follows what is chosen, and what is chosen follows the address.
export function useAddress(text: string, changed: (text: string) => void, kept = true): void {
  const { address } = useContext(Home);
  const act = useRef(changed);
  act.current = changed;
  const written = useRef(address.read());
  useEffect(() => {
    if (!kept) return undefined;
    const later = setTimeout(() => {
      written.current = text;
      address.write(text);
    }, 120);
    return () => clearTimeout(later);
  }, [text]);
  useEffect(() => {
    if (!kept) return undefined;
    const read = (): void => {
      const now = address.read();
      if (now !== null && now !== written.current) {
        written.current = now;
        act.current(now);
      }
    };
    window.addEventListener('hashchange', read);
    read(); // it may have changed before anybody listened
    return () => window.removeEventListener('hashchange', read);
  }, []);
}
