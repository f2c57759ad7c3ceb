// All pages, in the order of the navigation. An address without a page opens the first.

import { askPage } from './ask-page';
import { benchPage } from './bench-page';
import { claimsPage } from './claims-page';
import { lookPage } from './look-page';
import type { Page } from './page-declaration';
import { playgroundPage } from './playground-page';
import { runsPage } from './runs-page';
import { seePage } from './see-page';
import { writePage } from './write-page';

export const PAGES: Page[] = [
  runsPage,
  askPage,
  writePage,
  seePage,
  lookPage,
  claimsPage,
  playgroundPage,
  benchPage,
];

export function findPage(name: string): Page {
  return PAGES.find((page) => page.name === name) ?? PAGES[0];
}
