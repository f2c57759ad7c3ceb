// How a page of the studio declares itself. `pages.ts` lists them all.

import { createContext, type ComponentChild } from 'preact';
import type { Run } from './reading';
import type { Router } from './router';
import type { Fields } from './routes';

export interface Page {
  name: string; // in the address
  title: string;
  Shown: (props: { router: Router }) => ComponentChild;
  invites?: Record<string, string>; // what a run can do there, and the words of the link
  opens?: (run: Run) => Fields; // the fields of an address that opens a run
}

export const Pages = createContext<Page[]>([]);
