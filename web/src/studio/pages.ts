// Every page, in the order of the bar above. The first is shown where an address names none.

import { askPage } from './ask-page';
import { benchPage } from './bench-page';
import { claimsPage } from './claims-page';
import { lookPage } from './look-page';
import type { Page } from './page';
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

export function pageNamed(name: string): Page {
  return PAGES.find((each) => each.name === name) ?? PAGES[0];
}
