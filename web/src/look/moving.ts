// Moving through a drawing: from target to target by arrow keys, and through a matrix by zooming.

import type { Drawing, Target, Zoomed } from './view';

export type Direction = 'left' | 'right' | 'up' | 'down';
export type Corners = [number, number, number, number];

const STEPS: Record<Direction, [number, number]> = {
  left: [-1, 0],
  right: [1, 0],
  up: [0, -1],
  down: [0, 1],
};
const SIDEWAYS = 3; // how much a step aside counts more than one ahead

// What is at a place: targets lie on top of cells.
export function targetAt(drawing: Drawing, x: number, y: number): Target | null {
  for (let i = drawing.targets.length - 1; i >= 0; i -= 1) {
    const { x: left, y: top, w, h } = drawing.targets[i];
    if (x >= left && y >= top && x < left + w && y < top + h) return drawing.targets[i];
  }
  return drawing.at?.(x, y) ?? null;
}

// Where keys begin.
export function firstTarget(drawing: Drawing): Target | null {
  if (drawing.zoom && drawing.at) {
    const { x, y, w, h, window } = drawing.zoom;
    const cell = [w / (window[3] - window[2] + 1), h / (window[1] - window[0] + 1)];
    return drawing.at(x + cell[0] / 2, y + cell[1] / 2);
  }
  if (drawing.targets.length) return drawing.targets[0];
  for (let i = 0; drawing.at && i < 1600; i += 1) {
    const found = drawing.at(
      ((i % 40) + 0.5) * (drawing.width / 40),
      (Math.floor(i / 40) + 0.5) * (drawing.height / 40),
    );
    if (found) return found;
  }
  return null;
}

// The target of the same key, or at the same place, after a redraw.
export function sameTarget(drawing: Drawing, old: Target): Target | null {
  const found =
    old.key === undefined ? undefined : drawing.targets.find((each) => each.key === old.key);
  if (found) return found;
  const moved = old.key === undefined ? null : drawing.find?.(old.key);
  if (moved) return moved;
  const here = targetAt(drawing, old.x + old.w / 2, old.y + old.h / 2);
  return here && here.key === old.key ? here : null;
}

export function nextTarget(drawing: Drawing, from: Target, direction: Direction): Target {
  const [dx, dy] = STEPS[direction];
  const [x, y] = [from.x + from.w / 2, from.y + from.h / 2];
  const cell = drawing.at?.(x + dx * from.w, y + dy * from.h);
  if (cell && !same(cell, from) && drawing.at && isCell(drawing, from)) return cell;
  let best: Target | null = null;
  let least = Infinity;
  for (const each of drawing.targets) {
    const [ax, ay] = [each.x + each.w / 2 - x, each.y + each.h / 2 - y];
    const ahead = ax * dx + ay * dy;
    const aside = Math.abs(ax * dy) + Math.abs(ay * dx);
    if (
      same(each, from) ||
      ahead <= 0.5 ||
      aside > ahead * 4 + from.w * Math.abs(dy) + from.h * Math.abs(dx)
    )
      continue;
    const cost = ahead + SIDEWAYS * aside;
    if (cost < least) [best, least] = [each, cost];
  }
  return best ?? entered(drawing, from, dx, dy) ?? from;
}

// From a label into the cells beside it.
function entered(drawing: Drawing, from: Target, dx: number, dy: number): Target | null {
  if (!drawing.at || isCell(drawing, from)) return null;
  const [x, y] = [from.x + from.w / 2, from.y + from.h / 2];
  for (let away = 4; away < drawing.width + drawing.height; away += 4) {
    const found = drawing.at(x + dx * (from.w / 2 + away), y + dy * (from.h / 2 + away));
    if (found) return found;
  }
  return null;
}

function isCell(drawing: Drawing, target: Target): boolean {
  const here = drawing.at?.(target.x + target.w / 2, target.y + target.h / 2);
  return !!here && same(here, target);
}

function same(one: Target, other: Target): boolean {
  return (
    one === other ||
    (one.key !== undefined && one.key === other.key) ||
    (one.key === undefined &&
      other.key === undefined &&
      one.label === other.label &&
      one.x === other.x &&
      one.y === other.y)
  );
}

// Zooming so that the point stays where it is. Null: everything.
export function zoomAt(zoomed: Zoomed, factor: number, x: number, y: number): Corners | null {
  const [top, bottom, left, right] = zoomed.window;
  const across = span(left, right, zoomed.columns, factor, (x - zoomed.x) / zoomed.w);
  const down = span(top, bottom, zoomed.rows, factor, (y - zoomed.y) / zoomed.h);
  return whole([...down, ...across], zoomed);
}

function span(
  first: number,
  last: number,
  all: number,
  factor: number,
  at: number,
): [number, number] {
  const share = Math.max(0, Math.min(1, at));
  const now = last - first + 1;
  const wanted = Math.round(now / factor);
  const size = Math.max(
    Math.min(2, all),
    Math.min(all, wanted === now ? now + (factor < 1 ? 1 : -1) : wanted),
  );
  const begin = Math.round(first + share * now - share * size);
  const bounded = Math.max(0, Math.min(all - size, begin));
  return [bounded, bounded + size - 1];
}

// What a dragged frame shows.
export function zoomTo(
  zoomed: Zoomed,
  x1: number,
  y1: number,
  x2: number,
  y2: number,
): Corners | null {
  const [top, bottom, left, right] = zoomed.window;
  const place = (at: number, from: number, size: number, first: number, last: number): number =>
    Math.max(first, Math.min(last, first + Math.floor(((at - from) / size) * (last - first + 1))));
  return whole(
    [
      place(Math.min(y1, y2), zoomed.y, zoomed.h, top, bottom),
      place(Math.max(y1, y2), zoomed.y, zoomed.h, top, bottom),
      place(Math.min(x1, x2), zoomed.x, zoomed.w, left, right),
      place(Math.max(x1, x2), zoomed.x, zoomed.w, left, right),
    ],
    zoomed,
  );
}

export function pan(zoomed: Zoomed, direction: Direction): Corners | null {
  const [dx, dy] = STEPS[direction];
  const [top, bottom, left, right] = zoomed.window;
  const slide = (first: number, last: number, all: number, sign: number): [number, number] => {
    const step = sign * Math.max(1, Math.round((last - first + 1) / 4));
    const moved = Math.max(-first, Math.min(all - 1 - last, step));
    return [first + moved, last + moved];
  };
  return whole(
    [...slide(top, bottom, zoomed.rows, dy), ...slide(left, right, zoomed.columns, dx)],
    zoomed,
  );
}

function whole(corners: Corners, { rows, columns }: Zoomed): Corners | null {
  const [top, bottom, left, right] = corners;
  return top === 0 && left === 0 && bottom === rows - 1 && right === columns - 1 ? null : corners;
}
