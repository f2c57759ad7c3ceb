// A part of the plane with points that you can move by mouse, touch and keyboard.

import { useRef } from 'preact/hooks';
import { formatFixed } from '../report/number-format';
import type { Matrix, Vector } from './math';
import { roundCoordinate } from './plane-attention';

export interface BoardPoint {
  id: string;
  name: string; // "key 1"
  label: string; // "1"
  at: Vector;
  shape: 'circle' | 'square' | 'arrow' | 'diamond' | 'cross';
  color: string;
  weight?: number; // 0 to 1: how large and opaque the point is
  faint?: boolean;
  detail?: string; // added to the label for screen readers
  move?: (at: Vector) => void;
}

export interface PointCloud {
  id: string;
  points: Matrix;
  color: string;
}

interface BoardProps {
  title: string;
  range: number;
  points: BoardPoint[];
  clouds: PointCloud[];
}

const HALF_SIZE = 100;
const KEY_STEP = 0.05;

export function Board({ title, range, points, clouds }: BoardProps) {
  const svgRef = useRef<SVGSVGElement>(null);
  const draggedId = useRef<string | null>(null);
  const unit = HALF_SIZE / range;
  const toPixels = ([x, y]: Vector): [number, number] => [
    clipToBoard(x * unit),
    clipToBoard(-y * unit),
  ];
  const pointerPosition = (event: PointerEvent): Vector => {
    const area = svgRef.current!.getBoundingClientRect();
    const scale = (2 * HALF_SIZE) / area.width / unit;
    const x = (event.clientX - area.left - area.width / 2) * scale;
    const y = (area.top + area.height / 2 - event.clientY) * scale;
    return [x, y].map((each) => roundCoordinate(Math.max(-range, Math.min(range, each))));
  };
  const onPointerMove = (event: PointerEvent): void => {
    if (draggedId.current === null) return;
    event.preventDefault();
    points.find((each) => each.id === draggedId.current)?.move?.(pointerPosition(event));
  };
  const onPointerUp = (): void => {
    draggedId.current = null;
  };
  const onKeyDown = (point: BoardPoint, event: KeyboardEvent): void => {
    const direction = {
      ArrowLeft: [-1, 0],
      ArrowRight: [1, 0],
      ArrowUp: [0, 1],
      ArrowDown: [0, -1],
    }[event.key];
    if (!direction || !point.move) return;
    event.preventDefault();
    const step = KEY_STEP * (event.shiftKey ? 5 : 1);
    point.move(point.at.map((x, i) => roundCoordinate(x + step * direction[i])));
  };
  return (
    <figure class="board">
      <figcaption>{title}</figcaption>
      <svg
        ref={svgRef}
        viewBox={`${-HALF_SIZE} ${-HALF_SIZE} ${2 * HALF_SIZE} ${2 * HALF_SIZE}`}
        role="group"
        aria-label={title}
        onPointerMove={onPointerMove}
        onPointerUp={onPointerUp}
        onPointerCancel={onPointerUp}
      >
        <rect
          class="ground"
          x={-HALF_SIZE}
          y={-HALF_SIZE}
          width={2 * HALF_SIZE}
          height={2 * HALF_SIZE}
          rx="3"
        />
        {gridLines(range).map((at) => (
          <path key={at} class="grid" d={crossPath(at * unit)} />
        ))}
        <path class="axes" d={crossPath(0)} />
        {clouds.map((cloud) => (
          <path
            key={cloud.id}
            class="cloud"
            stroke={cloud.color}
            d={cloudPath(cloud.points, unit)}
          />
        ))}
        {points.map((point) => (
          <g
            key={point.id}
            class={point.move ? 'point movable' : 'point'}
            data-point={point.id}
            tabindex={point.move ? 0 : undefined}
            role={point.move ? 'button' : 'img'}
            aria-roledescription={point.move ? 'movable point' : undefined}
            aria-label={accessibleName(point)}
            opacity={point.faint ? 0.35 : 1}
            onKeyDown={(event) => onKeyDown(point, event)}
            onPointerDown={(event) => {
              if (!point.move) return;
              draggedId.current = point.id;
              svgRef.current?.setPointerCapture(event.pointerId);
              event.currentTarget.focus();
              event.preventDefault();
            }}
          >
            <PointShape point={point} at={toPixels(point.at)} />
          </g>
        ))}
      </svg>
    </figure>
  );
}

function accessibleName({ name, at, detail }: BoardPoint): string {
  return `${name} at ${at.map((x) => formatFixed(x, 2)).join(', ')}${detail ? `, ${detail}` : ''}`;
}

function clipToBoard(value: number): number {
  return Math.max(-HALF_SIZE + 4, Math.min(HALF_SIZE - 4, value));
}

function crossPath(at: number): string {
  return `M${at} ${-HALF_SIZE}V${HALF_SIZE}M${-HALF_SIZE} ${at}H${HALF_SIZE}`;
}

function gridLines(range: number): number[] {
  const largest = Math.floor(range);
  return Array.from({ length: 2 * largest + 1 }, (_, i) => i - largest).filter(
    (each) => each !== 0,
  );
}

// One path for all points, because thousands of elements would be slow.
function cloudPath(points: Matrix, unit: number): string {
  return points
    .filter(([x, y]) => Math.abs(x * unit) < HALF_SIZE && Math.abs(y * unit) < HALF_SIZE)
    .map(([x, y]) => `M${(x * unit).toFixed(1)} ${(-y * unit).toFixed(1)}h0`)
    .join('');
}

function PointShape({ point, at: [x, y] }: { point: BoardPoint; at: [number, number] }) {
  const { shape, color, weight = 1, label } = point;
  const ring = <circle class="ring" cx={x} cy={y} r="9.5" />;
  const text = (dx: number, dy: number) => (
    <text class="name" x={x + dx} y={y + dy} text-anchor="middle">
      {label}
    </text>
  );
  if (shape === 'arrow') {
    const long = Math.hypot(x, y) || 1;
    const [u, v] = [x / long, y / long];
    const [back, down] = [x - 7 * u, y - 7 * v];
    const [aside, along] = [3.5 * v, 3.5 * u];
    const tip = `M${x} ${y}L${back + aside} ${down - along}L${back - aside} ${down + along}Z`;
    return (
      <>
        {ring}
        <path d={`M0 0L${x - 5 * u} ${y - 5 * v}`} stroke={color} stroke-width="1.8" />
        <path d={tip} fill={color} />
        {text(9 * u, 9 * v + 3)}
      </>
    );
  }
  if (shape === 'diamond' || shape === 'cross') {
    const d =
      shape === 'diamond'
        ? `M${x} ${y - 6}L${x + 6} ${y}L${x} ${y + 6}L${x - 6} ${y}Z`
        : `M${x - 5} ${y}h10M${x} ${y - 5}v10`;
    const filled = shape === 'diamond' ? color : 'none';
    return (
      <>
        <path class="halo" d={d} />
        <path d={d} fill={filled} stroke={color} stroke-width="1.6" />
        {text(0, -9)}
      </>
    );
  }
  const r = 4 + 2.5 * weight;
  const fill = { fill: color, 'fill-opacity': 0.12 + 0.88 * weight, stroke: color };
  return (
    <>
      {ring}
      <circle class="hold" cx={x} cy={y} r="11" />
      {shape === 'circle' ? (
        <circle cx={x} cy={y} r={r} {...fill} stroke-width="1.4" />
      ) : (
        <rect
          x={x - r}
          y={y - r}
          width={2 * r}
          height={2 * r}
          rx="1"
          {...fill}
          stroke-width="1.4"
        />
      )}
      {text(10, -6)}
    </>
  );
}
