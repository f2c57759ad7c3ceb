// What a page of the studio declares. `pages.ts` lists all pages.

import { createContext, type ComponentChild } from 'preact';
import type { Run } from './api-helpers';
import type { Router } from './router';
import type { Fields } from './route-format';

export interface Page {
  name: string; // in the address
  title: string;
  Component: (props: { router: Router }) => ComponentChild;
  links?: Record<string, string>; // capabilities of runs that it uses, each with the text of a link
  addressFields?: (run: Run) => Fields; // of the address that opens a run
}

export const PagesContext = createContext<Page[]>([]);
