// The drawing: canvas, pointer, keyboard and tip. The pointer's moves render this alone.

import { useEffect, useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks';
import type { Opened } from '../capture';
import type { Choices } from '../choices';
import { drawingOf } from '../drawings';
import type { Measure } from '../../shared/fonts';
import { sameTarget, targetAt, zoomTo } from '../moving';
import { paint } from '../paint';
import type { Theme } from '../../shared/theme';
import type { Drawing, Frame, Target, View } from '../view';
import type { Place } from './app';
import { inside, onKey, reveal, usePixelRatio, useWheel } from './stage-keys';
import { Tip } from './tip';

export interface StageProps {
  opened: Opened;
  view: View;
  choices: Choices;
  theme: Theme;
  measure: Measure;
  width: number;
  height: number;
  place: Place;
  change: (some: Partial<Choices>) => void;
  toggle: (target: Target) => void;
  drawn: (drawing: Drawing | null) => void;
}

interface Pointed {
  target: Target;
  x: number; // in the drawing
  y: number;
  keys: boolean; // by keyboard
}

interface Drag {
  x: number;
  y: number;
  toX: number;
  toY: number;
  moved: boolean;
}

export function Stage(props: StageProps) {
  const {
    opened,
    view,
    choices,
    theme,
    measure,
    width,
    height,
    change,
    place: { id },
  } = props;
  const [pointed, setPointed] = useState<Pointed | null>(null);
  const [drag, setDrag] = useState<Drag | null>(null);
  const area = useRef<HTMLDivElement>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const over = useRef<HTMLCanvasElement>(null);

  const drawing = useMemo(
    () => drawingOf(view, { opened, choices, width, height, measure }),
    [opened, view, choices, width, height, measure],
  );
  const shown = usePreview(props, drawing, pointed);
  const old = useRef(drawing);
  if (old.current !== drawing) {
    // what was pointed at may have moved, or be gone
    old.current = drawing;
    const target = pointed && sameTarget(drawing, pointed.target);
    if (pointed && target !== pointed.target)
      setPointed(target && { ...pointed, target, ...(pointed.keys ? below(target) : {}) });
  }
  useEffect(() => props.drawn(drawing), [drawing]);

  const part = () => ({
    x: area.current?.scrollLeft ?? 0,
    y: area.current?.scrollTop ?? 0,
    w: area.current?.clientWidth ?? width,
    h: area.current?.clientHeight ?? height,
  });
  const repaint = (): void => {
    if (!canvas.current || !over.current) return;
    const ratio = window.devicePixelRatio || 1;
    paint(canvas.current, shown.marks, part(), ratio, theme, measure, true);
    const marks = pointed?.target.over?.() ?? [];
    if (drag?.moved) {
      marks.push({
        kind: 'rect',
        x: Math.min(drag.x, drag.toX),
        y: Math.min(drag.y, drag.toY),
        w: Math.abs(drag.toX - drag.x),
        h: Math.abs(drag.toY - drag.y),
        fill: 'accent',
        stroke: 'accent',
        opacity: 0.25,
      });
    }
    paint(over.current, marks, part(), ratio, theme, measure, false);
  };
  useLayoutEffect(repaint, [shown, theme, width, height, pointed?.target, drag]);
  usePixelRatio(repaint);
  useWheel(area, drawing, props);

  const place = (event: MouseEvent): [number, number] => {
    const box = area.current?.getBoundingClientRect();
    const { x, y } = part();
    return [event.clientX - (box?.left ?? 0) + x, event.clientY - (box?.top ?? 0) + y];
  };
  const point = (event: PointerEvent): void => {
    const [x, y] = place(event);
    if (drag) {
      setDrag({
        ...drag,
        toX: x,
        toY: y,
        moved: drag.moved || Math.hypot(x - drag.x, y - drag.y) > 5,
      });
      return;
    }
    const target = targetAt(drawing, x, y);
    if (!target) setPointed(null);
    else if (pointed && !pointed.keys && sameSpot(pointed.target, target))
      setPointed({ ...pointed, x, y });
    else setPointed({ target, x, y, keys: false });
  };
  const press = (event: PointerEvent): void => {
    const [x, y] = place(event);
    if (event.button !== 0 || event.pointerType === 'touch' || !inside(drawing, x, y)) return;
    setDrag({ x, y, toX: x, toY: y, moved: false });
  };
  const release = (event: PointerEvent): void => {
    if (drag?.moved && drawing.zoom) {
      change({ zoom: zoomTo(drawing.zoom, drag.x, drag.y, drag.toX, drag.toY) });
      setPointed(null);
    } else if (event.button === 0) {
      const target = targetAt(drawing, ...place(event));
      if (target) choose(target, event.shiftKey || event.ctrlKey || event.metaKey);
    }
    setDrag(null);
  };
  const choose = (target: Target, several: boolean): void => {
    if (several && target.toggles) props.toggle(target);
    else if (target.pick) change(target.pick);
  };
  const go = (target: Target | null): void => {
    if (!target) return;
    setPointed({ target, ...below(target), keys: true });
    reveal(area.current, target);
  };
  const key = (event: KeyboardEvent): void => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (
      !onKey(event, drawing, pointed?.target ?? null, {
        go,
        choose,
        leave: () => setPointed(null),
        change,
      })
    )
      return;
    event.preventDefault();
    event.stopPropagation();
  };

  const target = pointed?.target;
  return (
    <div class="stage">
      <div
        class={drawing.zoom ? 'area crosshair' : 'area'}
        ref={area}
        tabIndex={0}
        role="application"
        aria-roledescription="drawing"
        aria-label={`${view.title}: ${drawing.summary}`}
        aria-describedby={`${id}-keys`}
        aria-activedescendant={pointed?.keys ? `${id}-active` : undefined}
        style={{ maxHeight: `${height}px` }}
        onPointerMove={point}
        onPointerDown={press}
        onPointerUp={release}
        onPointerLeave={() => {
          if (!pointed?.keys && !drag?.moved) setPointed(null);
        }}
        onPointerCancel={() => setDrag(null)}
        onKeyDown={key}
        onBlur={() => {
          if (pointed?.keys) setPointed(null);
        }}
        onScroll={repaint}
      >
        <div class="sheet" style={{ width: `${drawing.width}px`, height: `${drawing.height}px` }}>
          <div
            class="pane"
            style={{ height: `${Math.min(height, drawing.height)}px`, width: `${width}px` }}
          >
            <canvas ref={canvas} />
            <canvas ref={over} />
          </div>
          {target && pointed.keys && (
            <div
              id={`${id}-active`}
              class="ring"
              role={target.pick ? 'button' : 'img'}
              aria-label={target.label}
              style={{
                left: `${target.x}px`,
                top: `${target.y}px`,
                width: `${target.w}px`,
                height: `${target.h}px`,
              }}
            />
          )}
        </div>
      </div>
      {target && !drag?.moved && (
        <Tip target={target} x={pointed.x} y={pointed.y} keys={pointed.keys} area={area} />
      )}
      <p class="quiet" role="status" aria-live="polite">
        {pointed?.keys && target?.tip ? target.tip().slice(0, 12).join('. ') : ''}
      </p>
    </div>
  );
}

// The drawing with what is pointed at tried out.
function usePreview(props: StageProps, drawing: Drawing, pointed: Pointed | null): Drawing {
  const { opened, view, choices, width, height, measure } = props;
  const preview = pointed?.target.preview;
  const key = preview ? JSON.stringify(preview) : '';
  return useMemo(() => {
    if (!preview) return drawing;
    const tried = { ...choices, ...preview };
    const frame: Frame = { opened, choices: tried, width, height, measure };
    return view.missing(opened, tried) || !opened.ready(view.needs(opened, tried))
      ? drawing
      : view.draw(frame);
  }, [drawing, key]);
}

// Where the tip of a focused target stands.
function below({ x, y, w, h }: Target): { x: number; y: number } {
  return { x: x + w / 2, y: y + h };
}

function sameSpot(one: Target, other: Target): boolean {
  return one === other || (one.key !== undefined && one.key === other.key);
}
