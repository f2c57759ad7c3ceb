// The drawing: canvas, pointer, keyboard and tooltip. Pointer moves re-render only this component.

import { useEffect, useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks';
import type { Capture } from '../capture';
import type { Choices } from '../choices';
import { cachedDrawing } from '../drawing-cache';
import type { Measure } from '../../shared/text-width';
import { sameTarget, targetAt, zoomTo } from '../navigation';
import { paint } from '../paint-canvas';
import type { Theme } from '../../shared/theme';
import type { Drawing, Frame, Target, View } from '../view';
import type { Host } from './app';
import {
  isInZoomArea,
  handleKey,
  scrollIntoView,
  usePixelRatio,
  useWheel,
} from './drawing-area-input';
import { Tooltip } from './tooltip';

export interface DrawingAreaProps {
  capture: Capture;
  view: View;
  choices: Choices;
  theme: Theme;
  measure: Measure;
  width: number;
  height: number;
  scale?: number; // of the drawing on the screen
  host: Host;
  change: (changes: Partial<Choices>) => void;
  toggle: (target: Target) => void;
  onDrawn: (drawing: Drawing | null) => void;
}

interface PointedTarget {
  target: Target;
  x: number; // in drawing coordinates
  y: number;
  byKeyboard: boolean; // focused by keyboard
}

interface Drag {
  x: number;
  y: number;
  toX: number;
  toY: number;
  moved: boolean;
}

export function DrawingArea(props: DrawingAreaProps) {
  const {
    capture,
    view,
    choices,
    theme,
    measure,
    width,
    height,
    change,
    scale = 1,
    host: { id },
  } = props;
  const [pointed, setPointed] = useState<PointedTarget | null>(null);
  const [drag, setDrag] = useState<Drag | null>(null);
  const area = useRef<HTMLDivElement>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const overlay = useRef<HTMLCanvasElement>(null);

  const drawing = useMemo(
    () => cachedDrawing(view, { capture, choices, width, height, measure }),
    [capture, view, choices, width, height, measure],
  );
  const visibleDrawing = usePreview(props, drawing, pointed);
  const previous = useRef(drawing);
  if (previous.current !== drawing) {
    // the target may have moved or disappeared
    previous.current = drawing;
    const target = pointed && sameTarget(drawing, pointed.target);
    if (pointed && target !== pointed.target)
      setPointed(
        target && { ...pointed, target, ...(pointed.byKeyboard ? tooltipPosition(target) : {}) },
      );
  }
  useEffect(() => props.onDrawn(drawing), [drawing]);

  const visibleArea = () => ({
    x: (area.current?.scrollLeft ?? 0) / scale,
    y: (area.current?.scrollTop ?? 0) / scale,
    w: (area.current?.clientWidth ?? width * scale) / scale,
    h: (area.current?.clientHeight ?? height * scale) / scale,
  });
  const repaint = (): void => {
    if (!canvas.current || !overlay.current) return;
    const ratio = (window.devicePixelRatio || 1) * scale;
    paint(canvas.current, visibleDrawing.marks, visibleArea(), ratio, theme, measure, true);
    const marks = pointed?.target.overlay?.() ?? [];
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
    paint(overlay.current, marks, visibleArea(), ratio, theme, measure, false);
  };
  useLayoutEffect(repaint, [visibleDrawing, theme, width, height, scale, pointed?.target, drag]);
  usePixelRatio(repaint);
  useWheel(area, drawing, props);

  const toDrawing = (event: MouseEvent): [number, number] => {
    const box = area.current?.getBoundingClientRect();
    const { x, y } = visibleArea();
    return [
      (event.clientX - (box?.left ?? 0)) / scale + x,
      (event.clientY - (box?.top ?? 0)) / scale + y,
    ];
  };
  const onPointerMove = (event: PointerEvent): void => {
    const [x, y] = toDrawing(event);
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
    else if (pointed && !pointed.byKeyboard && isSameTarget(pointed.target, target))
      setPointed({ ...pointed, x, y });
    else setPointed({ target, x, y, byKeyboard: false });
  };
  const onPointerDown = (event: PointerEvent): void => {
    const [x, y] = toDrawing(event);
    if (event.button !== 0 || event.pointerType === 'touch' || !isInZoomArea(drawing, x, y)) return;
    setDrag({ x, y, toX: x, toY: y, moved: false });
  };
  const onPointerUp = (event: PointerEvent): void => {
    if (drag?.moved && drawing.zoom) {
      change({ zoom: zoomTo(drawing.zoom, drag.x, drag.y, drag.toX, drag.toY) });
      setPointed(null);
    } else if (event.button === 0) {
      const target = targetAt(drawing, ...toDrawing(event));
      if (target) selectTarget(target, event.shiftKey || event.ctrlKey || event.metaKey);
    }
    setDrag(null);
  };
  const selectTarget = (target: Target, addToSet: boolean): void => {
    if (addToSet && target.toggles) props.toggle(target);
    else if (target.pick) change(target.pick);
  };
  const focusTarget = (target: Target | null): void => {
    if (!target) return;
    setPointed({ target, ...tooltipPosition(target), byKeyboard: true });
    scrollIntoView(area.current, scaled(target, scale));
  };
  const onKeyDown = (event: KeyboardEvent): void => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (
      !handleKey(event, drawing, pointed?.target ?? null, {
        focus: focusTarget,
        select: selectTarget,
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
    <div class="drawing-area">
      <div
        class={`area${drawing.zoom ? ' crosshair' : ''}${target?.pick && !pointed?.byKeyboard ? ' pointing' : ''}`}
        ref={area}
        tabIndex={0}
        role="application"
        aria-roledescription="drawing"
        aria-label={`${view.title}: ${drawing.summary}`}
        aria-describedby={`${id}-keys`}
        aria-activedescendant={pointed?.byKeyboard ? `${id}-active` : undefined}
        style={{ maxHeight: `${height * scale}px` }}
        onPointerMove={onPointerMove}
        onPointerDown={onPointerDown}
        onPointerUp={onPointerUp}
        onPointerLeave={() => {
          if (!pointed?.byKeyboard && !drag?.moved) setPointed(null);
        }}
        onPointerCancel={() => setDrag(null)}
        onKeyDown={onKeyDown}
        onBlur={() => {
          if (pointed?.byKeyboard) setPointed(null);
        }}
        onScroll={repaint}
      >
        <div
          class="sheet"
          style={{ width: `${drawing.width * scale}px`, height: `${drawing.height * scale}px` }}
        >
          <div
            class="pane"
            style={{
              height: `${Math.min(height, drawing.height) * scale}px`,
              width: `${width * scale}px`,
            }}
          >
            <canvas ref={canvas} />
            <canvas ref={overlay} />
          </div>
          {target && pointed.byKeyboard && (
            <div
              id={`${id}-active`}
              class="ring"
              role={target.pick ? 'button' : 'img'}
              aria-label={target.label}
              style={{
                left: `${target.x * scale}px`,
                top: `${target.y * scale}px`,
                width: `${target.w * scale}px`,
                height: `${target.h * scale}px`,
              }}
            />
          )}
        </div>
      </div>
      {target && !drag?.moved && (
        <Tooltip
          target={scaled(target, scale)}
          x={pointed.x * scale}
          y={pointed.y * scale}
          byKeyboard={pointed.byKeyboard}
          area={area}
        />
      )}
      <p class="quiet" role="status" aria-live="polite">
        {pointed?.byKeyboard && target?.tooltip ? target.tooltip().slice(0, 12).join('. ') : ''}
      </p>
    </div>
  );
}

// The drawing with the preview choices of the hovered target.
function usePreview(
  props: DrawingAreaProps,
  drawing: Drawing,
  pointed: PointedTarget | null,
): Drawing {
  const { capture, view, choices, width, height, measure } = props;
  const preview = pointed?.target.preview;
  const key = preview ? JSON.stringify(preview) : '';
  return useMemo(() => {
    if (!preview) return drawing;
    const previewChoices = { ...choices, ...preview };
    const frame: Frame = { capture, choices: previewChoices, width, height, measure };
    return view.missingReason(capture, previewChoices) ||
      !capture.isLoaded(view.needs(capture, previewChoices))
      ? drawing
      : view.draw(frame);
  }, [drawing, key]);
}

// The target as the screen shows it.
function scaled(target: Target, scale: number): Target {
  if (scale === 1) return target;
  const { x, y, w, h, tooltipSpan } = target;
  return {
    ...target,
    x: x * scale,
    y: y * scale,
    w: w * scale,
    h: h * scale,
    tooltipSpan: tooltipSpan && [tooltipSpan[0] * scale, tooltipSpan[1] * scale],
  };
}

// The position of the tooltip of a focused target.
function tooltipPosition({ x, y, w, h }: Target): { x: number; y: number } {
  return { x: x + w / 2, y: y + h };
}

function isSameTarget(one: Target, other: Target): boolean {
  return one === other || (one.key !== undefined && one.key === other.key);
}
