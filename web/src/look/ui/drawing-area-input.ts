// Keyboard and wheel input for the drawing.

import { useEffect, useRef } from 'preact/hooks';
import type { Choices } from '../choices';
import { firstTarget, nextTarget, pan, zoomAt, type Direction } from '../navigation';
import type { Drawing, Target } from '../view';
import type { DrawingAreaProps } from './drawing-area';

const ARROWS: Record<string, Direction> = {
  ArrowLeft: 'left',
  ArrowRight: 'right',
  ArrowUp: 'up',
  ArrowDown: 'down',
};

interface DrawingActions {
  focus: (target: Target | null) => void;
  select: (target: Target, addToSet: boolean) => void;
  leave: () => void;
  change: (changes: Partial<Choices>) => void;
}

// Returns true if the drawing handled the key.
export function handleKey(
  event: KeyboardEvent,
  drawing: Drawing,
  target: Target | null,
  actions: DrawingActions,
): boolean {
  const arrow = ARROWS[event.key];
  const { zoom } = drawing;
  if (arrow && event.shiftKey && zoom) actions.change({ zoom: pan(zoom, arrow) });
  else if (arrow) actions.focus(target ? nextTarget(drawing, target, arrow) : firstTarget(drawing));
  else if (event.key === 'PageDown' || event.key === 'PageUp') {
    let destination = target ?? firstTarget(drawing);
    for (let i = 0; destination && i < 10; i += 1)
      destination = nextTarget(drawing, destination, event.key === 'PageDown' ? 'down' : 'up');
    actions.focus(destination);
  } else if (event.key === 'Home') actions.focus(firstTarget(drawing));
  else if (event.key === 'Enter' && target) actions.select(target, false);
  else if (event.key === ' ' && target) actions.select(target, true);
  else if (event.key === 'Escape' && target) actions.leave();
  else if (zoom && (event.key === '+' || event.key === '=' || event.key === '-')) {
    const [x, y] = target
      ? [target.x + target.w / 2, target.y + target.h / 2]
      : [zoom.x + zoom.w / 2, zoom.y + zoom.h / 2];
    actions.change({ zoom: zoomAt(zoom, event.key === '-' ? 1 / 1.5 : 1.5, x, y) });
  } else if (zoom && event.key === '0') actions.change({ zoom: null });
  else return false;
  return true;
}

export function isInZoomArea({ zoom }: Drawing, x: number, y: number): boolean {
  return !!zoom && x >= zoom.x && y >= zoom.y && x <= zoom.x + zoom.w && y <= zoom.y + zoom.h;
}

// Scrolls a focused target into view.
export function scrollIntoView(area: HTMLElement | null, { x, y, w, h }: Target): void {
  if (!area) return;
  const [left, top] = [area.scrollLeft, area.scrollTop];
  if (y < top + 30) area.scrollTop = Math.max(0, y - 60);
  else if (y + h > top + area.clientHeight) area.scrollTop = y + h - area.clientHeight + 60;
  if (x < left) area.scrollLeft = Math.max(0, x - 20);
  else if (x + w > left + area.clientWidth) area.scrollLeft = x + w - area.clientWidth + 20;
}

// The wheel zooms. If nothing is left to zoom out, it scrolls the page. In a notebook it needs Ctrl.
export function useWheel(
  area: { current: HTMLElement | null },
  drawing: Drawing,
  props: DrawingAreaProps,
): void {
  const latest = useRef({ drawing, props });
  latest.current = { drawing, props };
  useEffect(() => {
    const element = area.current;
    const onWheel = (event: WheelEvent): void => {
      const { zoom } = latest.current.drawing;
      const {
        host: { notebook },
        change,
        choices,
      } = latest.current.props;
      if (
        !element ||
        !zoom ||
        (notebook && !event.ctrlKey) ||
        (event.deltaY > 0 && !choices.zoom) ||
        !event.deltaY
      )
        return;
      const box = element.getBoundingClientRect();
      const scale = latest.current.props.scale ?? 1;
      const [x, y] = [
        (event.clientX - box.left + element.scrollLeft) / scale,
        (event.clientY - box.top + element.scrollTop) / scale,
      ];
      if (!isInZoomArea(latest.current.drawing, x, y)) return;
      event.preventDefault();
      change({ zoom: zoomAt(zoom, event.deltaY < 0 ? 1.25 : 0.8, x, y) });
    };
    element?.addEventListener('wheel', onWheel, { passive: false });
    return () => element?.removeEventListener('wheel', onWheel);
  }, []);
}

// Moving to another screen, or zooming the browser, changes the pixel ratio.
export function usePixelRatio(onChange: () => void): void {
  const latest = useRef(onChange);
  latest.current = onChange;
  useEffect(() => {
    const notify = (): void => latest.current();
    window.addEventListener('resize', notify);
    return () => window.removeEventListener('resize', notify);
  }, []);
}
