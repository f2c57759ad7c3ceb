// Navigation in a drawing: from target to target with arrow keys, and zooming and panning a matrix.

import type { Drawing, Target, ZoomArea } from './view';

export type Direction = 'left' | 'right' | 'up' | 'down';
export type ZoomWindow = [number, number, number, number];

const DIRECTIONS: Record<Direction, [number, number]> = {
  left: [-1, 0],
  right: [1, 0],
  up: [0, -1],
  down: [0, 1],
};
const SIDEWAYS_COST = 3; // cost of a pixel sideways, compared with a pixel ahead

// The target at a point. Targets lie on top of cells.
export function targetAt(drawing: Drawing, x: number, y: number): Target | null {
  for (let i = drawing.targets.length - 1; i >= 0; i -= 1) {
    const { x: left, y: top, w, h } = drawing.targets[i];
    if (x >= left && y >= top && x < left + w && y < top + h) return drawing.targets[i];
  }
  return drawing.targetAt?.(x, y) ?? null;
}

// The target that the first arrow key focuses.
export function firstTarget(drawing: Drawing): Target | null {
  if (drawing.zoom && drawing.targetAt) {
    const { x, y, w, h, window } = drawing.zoom;
    const cell = [w / (window[3] - window[2] + 1), h / (window[1] - window[0] + 1)];
    return drawing.targetAt(x + cell[0] / 2, y + cell[1] / 2);
  }
  if (drawing.targets.length) return drawing.targets[0];
  for (let i = 0; drawing.targetAt && i < 1600; i += 1) {
    const target = drawing.targetAt(
      ((i % 40) + 0.5) * (drawing.width / 40),
      (Math.floor(i / 40) + 0.5) * (drawing.height / 40),
    );
    if (target) return target;
  }
  return null;
}

// Finds a target again after a redraw: by its key, or at the same point.
export function sameTarget(drawing: Drawing, previous: Target): Target | null {
  const match =
    previous.key === undefined
      ? undefined
      : drawing.targets.find((each) => each.key === previous.key);
  if (match) return match;
  const moved = previous.key === undefined ? null : drawing.findByKey?.(previous.key);
  if (moved) return moved;
  const candidate = targetAt(drawing, previous.x + previous.w / 2, previous.y + previous.h / 2);
  return candidate && candidate.key === previous.key ? candidate : null;
}

export function nextTarget(drawing: Drawing, from: Target, direction: Direction): Target {
  const [dx, dy] = DIRECTIONS[direction];
  const [x, y] = [from.x + from.w / 2, from.y + from.h / 2];
  const cell = drawing.targetAt?.(x + dx * from.w, y + dy * from.h);
  if (cell && !isSameTarget(cell, from) && drawing.targetAt && isCell(drawing, from)) return cell;
  let nearest: Target | null = null;
  let lowestCost = Infinity;
  for (const target of drawing.targets) {
    const [offsetX, offsetY] = [target.x + target.w / 2 - x, target.y + target.h / 2 - y];
    const ahead = offsetX * dx + offsetY * dy;
    const aside = Math.abs(offsetX * dy) + Math.abs(offsetY * dx);
    if (
      isSameTarget(target, from) ||
      ahead <= 0.5 ||
      aside > ahead * 4 + from.w * Math.abs(dy) + from.h * Math.abs(dx)
    )
      continue;
    const cost = ahead + SIDEWAYS_COST * aside;
    if (cost < lowestCost) [nearest, lowestCost] = [target, cost];
  }
  return nearest ?? firstCellBeside(drawing, from, dx, dy) ?? from;
}

// The first cell beside a label, in this direction.
function firstCellBeside(drawing: Drawing, from: Target, dx: number, dy: number): Target | null {
  if (!drawing.targetAt || isCell(drawing, from)) return null;
  const [x, y] = [from.x + from.w / 2, from.y + from.h / 2];
  for (let distance = 4; distance < drawing.width + drawing.height; distance += 4) {
    const cell = drawing.targetAt(
      x + dx * (from.w / 2 + distance),
      y + dy * (from.h / 2 + distance),
    );
    if (cell) return cell;
  }
  return null;
}

function isCell(drawing: Drawing, target: Target): boolean {
  const cell = drawing.targetAt?.(target.x + target.w / 2, target.y + target.h / 2);
  return !!cell && isSameTarget(cell, target);
}

function isSameTarget(one: Target, other: Target): boolean {
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

// Zooms around a point, which stays fixed. Returns null if the whole matrix is visible.
export function zoomAt(area: ZoomArea, factor: number, x: number, y: number): ZoomWindow | null {
  const [top, bottom, left, right] = area.window;
  const across = zoomSpan(left, right, area.columns, factor, (x - area.x) / area.w);
  const down = zoomSpan(top, bottom, area.rows, factor, (y - area.y) / area.h);
  return orNullIfWhole([...down, ...across], area);
}

function zoomSpan(
  first: number,
  last: number,
  total: number,
  factor: number,
  center: number,
): [number, number] {
  const fraction = Math.max(0, Math.min(1, center));
  const length = last - first + 1;
  const zoomedLength = Math.round(length / factor);
  const size = Math.max(
    Math.min(2, total),
    Math.min(total, zoomedLength === length ? length + (factor < 1 ? 1 : -1) : zoomedLength),
  );
  const start = Math.round(first + fraction * length - fraction * size);
  const bounded = Math.max(0, Math.min(total - size, start));
  return [bounded, bounded + size - 1];
}

// Zooms to a dragged rectangle.
export function zoomTo(
  area: ZoomArea,
  x1: number,
  y1: number,
  x2: number,
  y2: number,
): ZoomWindow | null {
  const [top, bottom, left, right] = area.window;
  const toIndex = (at: number, from: number, size: number, first: number, last: number): number =>
    Math.max(first, Math.min(last, first + Math.floor(((at - from) / size) * (last - first + 1))));
  return orNullIfWhole(
    [
      toIndex(Math.min(y1, y2), area.y, area.h, top, bottom),
      toIndex(Math.max(y1, y2), area.y, area.h, top, bottom),
      toIndex(Math.min(x1, x2), area.x, area.w, left, right),
      toIndex(Math.max(x1, x2), area.x, area.w, left, right),
    ],
    area,
  );
}

export function pan(area: ZoomArea, direction: Direction): ZoomWindow | null {
  const [dx, dy] = DIRECTIONS[direction];
  const [top, bottom, left, right] = area.window;
  const slideSpan = (first: number, last: number, all: number, sign: number): [number, number] => {
    const step = sign * Math.max(1, Math.round((last - first + 1) / 4));
    const moved = Math.max(-first, Math.min(all - 1 - last, step));
    return [first + moved, last + moved];
  };
  return orNullIfWhole(
    [...slideSpan(top, bottom, area.rows, dy), ...slideSpan(left, right, area.columns, dx)],
    area,
  );
}

function orNullIfWhole(corners: ZoomWindow, { rows, columns }: ZoomArea): ZoomWindow | null {
  const [top, bottom, left, right] = corners;
  return top === 0 && left === 0 && bottom === rows - 1 && right === columns - 1 ? null : corners;
}
