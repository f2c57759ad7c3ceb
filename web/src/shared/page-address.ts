// The address of a page that is alone in its window or embedded in the studio.

import { createContext } from 'preact';
import { useContext, useEffect, useRef } from 'preact/hooks';

// Stores the choices of a reader, so that a link restores them.
export interface Address {
  read: () => string | null; // null if another page is shown now
  write: (text: string) => void;
  link: (text: string) => string;
}

export function replaceFragment(fragment: string): void {
  const bare = window.location.pathname + window.location.search;
  try {
    window.history.replaceState(window.history.state, '', fragment ? `#${fragment}` : bare);
  } catch {
    // a frame without an address: nothing to store
  }
}

const WINDOW_ADDRESS: Address = {
  read: () => window.location.hash.slice(1),
  write: replaceFragment,
  link: (text) => `#${text}`,
};

interface PageSurroundings {
  alone: boolean; // not embedded: the page sets its own colors
  address: Address;
}

export const PageContext = createContext<PageSurroundings>({ alone: true, address: WINDOW_ADDRESS });

// Keeps the address and the state `text` in step: a change of one changes the other.
export function useAddressState(text: string, onChange: (text: string) => void, enabled = true): void {
  const { address } = useContext(PageContext);
  const callback = useRef(onChange);
  callback.current = onChange;
  const written = useRef(address.read());
  useEffect(() => {
    if (!enabled) return undefined;
    const later = setTimeout(() => {
      written.current = text;
      address.write(text);
    }, 120);
    return () => clearTimeout(later);
  }, [text]);
  useEffect(() => {
    if (!enabled) return undefined;
    const read = (): void => {
      const now = address.read();
      if (now !== null && now !== written.current) {
        written.current = now;
        callback.current(now);
      }
    };
    window.addEventListener('hashchange', read);
    read(); // it may have changed before the listener was added
    return () => window.removeEventListener('hashchange', read);
  }, []);
}
