// Lines about what is pointed at, within the stage.

import { useLayoutEffect, useRef } from 'preact/hooks';
import type { Target } from '../view';

const MOST = 16; // lines

interface TipProps {
  target: Target;
  x: number;
  y: number;
  keys: boolean;
  area: { current: HTMLElement | null };
}

export function Tip({ target, x, y, keys, area }: TipProps) {
  const tip = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => {
    const [element, around] = [tip.current, area.current];
    if (!element || !around) return;
    const [left, top] = [x - around.scrollLeft, y - around.scrollTop];
    const { offsetWidth: w, offsetHeight: h } = element;
    const below = top + h + 24 < Math.max(around.clientHeight, h + 60) || top < h + 12;
    const wanted = keys ? left - w / 2 : left + 16;
    element.style.left = `${Math.max(0, Math.min(around.clientWidth - w, wanted))}px`;
    element.style.top = `${below ? top + (keys ? 6 : 18) : top - h - (keys ? target.h + 6 : 12)}px`;
  });
  const lines = target.tip?.() ?? [target.label];
  return (
    <div class="tip" ref={tip} aria-hidden="true">
      {lines.slice(0, MOST).map((line, i) => (
        <p key={i} class={i === 0 ? 'first' : ''}>
          {line}
        </p>
      ))}
    </div>
  );
}
