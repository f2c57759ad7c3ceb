// The tooltip of a target, placed within the drawing area.

import { useLayoutEffect, useRef } from 'preact/hooks';
import type { Target } from '../view';

const MAX_LINES = 16; // lines
const MIN_WIDTH = 140; // pixels; in a narrower space the tooltip covers a little more

interface TooltipProps {
  target: Target;
  x: number;
  y: number;
  byKeyboard: boolean;
  area: { current: HTMLElement | null };
}

export function Tooltip({ target, x, y, byKeyboard, area }: TooltipProps) {
  const element = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => {
    const [box, container] = [element.current, area.current];
    if (!box || !container) return;
    const [left, top] = [x - container.scrollLeft, y - container.scrollTop];
    const [from, to] = (target.tooltipSpan ?? [0, Infinity]).map((at) => at - container.scrollLeft);
    const right = Math.min(container.clientWidth, to);
    box.style.maxWidth = target.tooltipSpan ? `${Math.max(MIN_WIDTH, right - from)}px` : '';
    const { offsetWidth: w, offsetHeight: h } = box;
    const below = top + h + 24 < Math.max(container.clientHeight, h + 60) || top < h + 12;
    const preferred = byKeyboard ? left - w / 2 : left + 16;
    const last = Math.min(container.clientWidth, Math.max(right, from + w)) - w;
    box.style.left = `${Math.max(0, Math.min(last, Math.max(from, preferred)))}px`;
    box.style.top = `${below ? top + (byKeyboard ? 6 : 18) : top - h - (byKeyboard ? target.h + 6 : 12)}px`;
  });
  const lines = target.tooltip?.() ?? [target.label];
  return (
    <div class="tooltip" ref={element} aria-hidden="true">
      {lines.slice(0, MAX_LINES).map((line, i) => (
        <p key={i} class={i === 0 ? 'first' : ''}>
          {line}
        </p>
      ))}
    </div>
  );
}
