// Layout of the small maps in the model view.

import type { HeadGroup } from './model-head-groups';

const PADDING = 12;
const GAP = 8; // between maps
const GROUP_GAP = 28; // between groups in one row
const TITLE_HEIGHT = 20;
const SECTION_HEIGHT = 26;
const MIN_MAP_PIXELS = 60;
const MAX_MAP_PIXELS = 240;
const SCROLLING_MAP_PIXELS = 100; // size of a map if the page must scroll anyway
const MIN_GROUP_WIDTH = 150; // smallest width of a group, for its title

export interface GroupLayout {
  x: number;
  y: number; // top of the title
  above: number; // from there to the first row of maps
  columns: number;
  limit: number; // width of the title
}

export interface ModelLayout {
  cell: number; // size of a map
  step: number; // from one map to the next
  captions: number; // height below each map
  groups: GroupLayout[];
  height: number;
}

// The largest maps that fit on the page together; if those are too small, the page scrolls.
export function layOutModel(
  groups: HeadGroup[], captions: number, width: number, height: number,
): ModelLayout {
  const inner = Math.max(MIN_MAP_PIXELS, width - 2 * PADDING);
  for (let cell = Math.min(MAX_MAP_PIXELS, inner); cell >= MIN_MAP_PIXELS; cell -= 4) {
    const layout = arrange(groups, cell, captions, inner);
    if (layout.height <= height) return layout;
  }
  const largestGroup = Math.max(1, ...groups.map((group) => group.entries.length));
  const cellToFill = Math.floor((inner + GAP) / mapsPerRow(largestGroup, MIN_MAP_PIXELS,
    inner)) - GAP;
  return arrange(groups, Math.min(SCROLLING_MAP_PIXELS, cellToFill), captions, inner);
}

// Maps per row, so that all rows have nearly the same length.
function mapsPerRow(maps: number, cell: number, inner: number): number {
  const maxPerRow = Math.max(1, Math.floor((inner + GAP) / (cell + GAP)));
  return Math.ceil(maps / Math.ceil(maps / maxPerRow));
}

// Arranges groups like words in a text: side by side where they fit.
function arrange(groups: HeadGroup[], cell: number, captions: number, inner: number): ModelLayout {
  const groupLayouts: GroupLayout[] = [];
  let [x, y, tallest] = [0, 0, 0];
  groups.forEach((group, i) => {
    const columns = mapsPerRow(group.entries.length, cell, inner);
    const rows = Math.ceil(group.entries.length / columns);
    const groupWidth = Math.max(MIN_GROUP_WIDTH, columns * (cell + GAP) - GAP);
    if (x > 0 && (group.section !== '' || x + groupWidth > inner)) {
      groupLayouts[i - 1].limit = inner - groupLayouts[i - 1].x + PADDING; // the last group in its row
      [x, y, tallest] = [0, y + tallest, 0];
    }
    if (group.section !== '') y += SECTION_HEIGHT;
    groupLayouts.push({ x: PADDING + x, y, above: TITLE_HEIGHT, columns, limit: groupWidth });
    x += groupWidth + GROUP_GAP;
    tallest = Math.max(tallest, TITLE_HEIGHT + rows * (cell + captions) + GAP);
  });
  const last = groupLayouts[groupLayouts.length - 1];
  if (last) last.limit = inner - last.x + PADDING;
  return { cell, step: cell + GAP, captions, groups: groupLayouts, height: y + tallest };
}
