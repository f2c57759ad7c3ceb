// Where the small maps of the overview stand.

import type { HeadGroup } from './overview';

const PAD = 12;
const GAP = 8; // between maps
const BETWEEN = 28; // between groups in one line
const TITLE = 20;
const SECTION = 26;
const SMALLEST = 60;
const LARGEST = 240;
const COMFORTABLE = 100; // where the page scrolls anyway
const NARROWEST = 150; // of a group, for its title

export interface GroupPlace {
  x: number;
  y: number; // of its title
  above: number; // from there to its first row of maps
  columns: number;
  limit: number; // width of the title
}

export interface Layout {
  cell: number; // size of a map
  step: number; // from one map to the next
  captions: number; // height below each map
  groups: GroupPlace[];
  height: number;
}

// The largest maps with which all are seen at once; where those are too small, the page scrolls.
export function layOut(
  groups: HeadGroup[], captions: number, width: number, height: number,
): Layout {
  const inner = Math.max(SMALLEST, width - 2 * PAD);
  for (let cell = Math.min(LARGEST, inner); cell >= SMALLEST; cell -= 4) {
    const layout = arrange(groups, cell, captions, inner);
    if (layout.height <= height) return layout;
  }
  const most = Math.max(1, ...groups.map((group) => group.places.length));
  const filling = Math.floor((inner + GAP) / balanced(most, SMALLEST, inner)) - GAP;
  return arrange(groups, Math.min(COMFORTABLE, filling), captions, inner);
}

// Maps in a row, so that rows are as equally long as can be.
function balanced(maps: number, cell: number, inner: number): number {
  const fitting = Math.max(1, Math.floor((inner + GAP) / (cell + GAP)));
  return Math.ceil(maps / Math.ceil(maps / fitting));
}

// Groups follow each other like words: side by side where they fit.
function arrange(groups: HeadGroup[], cell: number, captions: number, inner: number): Layout {
  const places: GroupPlace[] = [];
  let [x, y, tallest] = [0, 0, 0];
  groups.forEach((group, i) => {
    const columns = balanced(group.places.length, cell, inner);
    const rows = Math.ceil(group.places.length / columns);
    const wide = Math.max(NARROWEST, columns * (cell + GAP) - GAP);
    if (x > 0 && (group.section !== '' || x + wide > inner)) {
      places[i - 1].limit = inner - places[i - 1].x + PAD; // nothing stands beside it
      [x, y, tallest] = [0, y + tallest, 0];
    }
    if (group.section !== '') y += SECTION;
    places.push({ x: PAD + x, y, above: TITLE, columns, limit: wide });
    x += wide + BETWEEN;
    tallest = Math.max(tallest, TITLE + rows * (cell + captions) + GAP);
  });
  const last = places[places.length - 1];
  if (last) last.limit = inner - last.x + PAD;
  return { cell, step: cell + GAP, captions, groups: places, height: y + tallest };
}
