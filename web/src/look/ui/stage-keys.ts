// Keys and the wheel, over a drawing.

import { useEffect, useRef } from 'preact/hooks';
import type { Choices } from '../choices';
import { firstTarget, nextTarget, pan, zoomAt, type Direction } from '../moving';
import type { Drawing, Target } from '../view';
import type { StageProps } from './stage';

const ARROWS: Record<string, Direction> = {
  ArrowLeft: 'left',
  ArrowRight: 'right',
  ArrowUp: 'up',
  ArrowDown: 'down',
};

interface Acts {
  go: (target: Target | null) => void;
  choose: (target: Target, several: boolean) => void;
  leave: () => void;
  change: (some: Partial<Choices>) => void;
}

// True where the key was for the drawing.
export function onKey(
  event: KeyboardEvent,
  drawing: Drawing,
  target: Target | null,
  acts: Acts,
): boolean {
  const arrow = ARROWS[event.key];
  const { zoom } = drawing;
  if (arrow && event.shiftKey && zoom) acts.change({ zoom: pan(zoom, arrow) });
  else if (arrow) acts.go(target ? nextTarget(drawing, target, arrow) : firstTarget(drawing));
  else if (event.key === 'PageDown' || event.key === 'PageUp') {
    let far = target ?? firstTarget(drawing);
    for (let i = 0; far && i < 10; i += 1)
      far = nextTarget(drawing, far, event.key === 'PageDown' ? 'down' : 'up');
    acts.go(far);
  } else if (event.key === 'Home') acts.go(firstTarget(drawing));
  else if (event.key === 'Enter' && target) acts.choose(target, false);
  else if (event.key === ' ' && target) acts.choose(target, true);
  else if (event.key === 'Escape' && target) acts.leave();
  else if (zoom && (event.key === '+' || event.key === '=' || event.key === '-')) {
    const [x, y] = target
      ? [target.x + target.w / 2, target.y + target.h / 2]
      : [zoom.x + zoom.w / 2, zoom.y + zoom.h / 2];
    acts.change({ zoom: zoomAt(zoom, event.key === '-' ? 1 / 1.5 : 1.5, x, y) });
  } else if (zoom && event.key === '0') acts.change({ zoom: null });
  else return false;
  return true;
}

export function inside({ zoom }: Drawing, x: number, y: number): boolean {
  return !!zoom && x >= zoom.x && y >= zoom.y && x <= zoom.x + zoom.w && y <= zoom.y + zoom.h;
}

// Scrolls by itself when keys move out of sight.
export function reveal(area: HTMLElement | null, { x, y, w, h }: Target): void {
  if (!area) return;
  const [left, top] = [area.scrollLeft, area.scrollTop];
  if (y < top + 30) area.scrollTop = Math.max(0, y - 60);
  else if (y + h > top + area.clientHeight) area.scrollTop = y + h - area.clientHeight + 60;
  if (x < left) area.scrollLeft = Math.max(0, x - 20);
  else if (x + w > left + area.clientWidth) area.scrollLeft = x + w - area.clientWidth + 20;
}

// A wheel that can zoom no further scrolls the page; in a notebook it needs Ctrl.
export function useWheel(
  area: { current: HTMLElement | null },
  drawing: Drawing,
  props: StageProps,
): void {
  const now = useRef({ drawing, props });
  now.current = { drawing, props };
  useEffect(() => {
    const element = area.current;
    const turn = (event: WheelEvent): void => {
      const { zoom } = now.current.drawing;
      const {
        place: { notebook },
        change,
        choices,
      } = now.current.props;
      if (
        !element ||
        !zoom ||
        (notebook && !event.ctrlKey) ||
        (event.deltaY > 0 && !choices.zoom) ||
        !event.deltaY
      )
        return;
      const box = element.getBoundingClientRect();
      const [x, y] = [
        event.clientX - box.left + element.scrollLeft,
        event.clientY - box.top + element.scrollTop,
      ];
      if (!inside(now.current.drawing, x, y)) return;
      event.preventDefault();
      change({ zoom: zoomAt(zoom, event.deltaY < 0 ? 1.25 : 0.8, x, y) });
    };
    element?.addEventListener('wheel', turn, { passive: false });
    return () => element?.removeEventListener('wheel', turn);
  }, []);
}

// Another screen, or the browser's own zoom, needs other pixels.
export function usePixelRatio(changed: () => void): void {
  const now = useRef(changed);
  now.current = changed;
  useEffect(() => {
    const act = (): void => now.current();
    window.addEventListener('resize', act);
    return () => window.removeEventListener('resize', act);
  }, []);
}
