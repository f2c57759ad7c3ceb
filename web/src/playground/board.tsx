// A piece of the plane with points that can be moved by mouse, finger and keys.

import { useRef } from 'preact/hooks';
import { fixed } from '../report/numbers';
import type { Matrix, Vector } from './math';
import { rounded } from './plane';

export interface Thing {
  id: string;
  name: string; // "key 1"
  label: string; // "1"
  at: Vector;
  shape: 'circle' | 'square' | 'arrow' | 'diamond' | 'cross';
  color: string;
  share?: number; // weight, 0 to 1: how full it is
  faint?: boolean;
  told?: string; // what else is to be said of it
  move?: (at: Vector) => void;
}

export interface Cloud {
  id: string;
  points: Matrix;
  color: string;
}

interface Props {
  title: string;
  range: number;
  things: Thing[];
  clouds: Cloud[];
}

const HALF = 100;
const STEP = 0.05;

export function Board({ title, range, things, clouds }: Props) {
  const box = useRef<SVGSVGElement>(null);
  const held = useRef<string | null>(null);
  const unit = HALF / range;
  const where = ([x, y]: Vector): [number, number] => [clip(x * unit), clip(-y * unit)];
  const pointed = (event: PointerEvent): Vector => {
    const area = box.current!.getBoundingClientRect();
    const scale = (2 * HALF) / area.width / unit;
    const x = (event.clientX - area.left - area.width / 2) * scale;
    const y = (area.top + area.height / 2 - event.clientY) * scale;
    return [x, y].map((each) => rounded(Math.max(-range, Math.min(range, each))));
  };
  const drag = (event: PointerEvent): void => {
    if (held.current === null) return;
    event.preventDefault();
    things.find((each) => each.id === held.current)?.move?.(pointed(event));
  };
  const drop = (): void => {
    held.current = null;
  };
  const press = (thing: Thing, event: KeyboardEvent): void => {
    const by = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] }[
      event.key
    ];
    if (!by || !thing.move) return;
    event.preventDefault();
    const step = STEP * (event.shiftKey ? 5 : 1);
    thing.move(thing.at.map((x, i) => rounded(x + step * by[i])));
  };
  return (
    <figure class="board">
      <figcaption>{title}</figcaption>
      <svg
        ref={box}
        viewBox={`${-HALF} ${-HALF} ${2 * HALF} ${2 * HALF}`}
        role="group"
        aria-label={title}
        onPointerMove={drag}
        onPointerUp={drop}
        onPointerCancel={drop}
      >
        <rect class="ground" x={-HALF} y={-HALF} width={2 * HALF} height={2 * HALF} rx="3" />
        {grid(range).map((at) => (
          <path key={at} class="grid" d={cross(at * unit)} />
        ))}
        <path class="axes" d={cross(0)} />
        {clouds.map((cloud) => (
          <path key={cloud.id} class="cloud" stroke={cloud.color} d={dust(cloud.points, unit)} />
        ))}
        {things.map((thing) => (
          <g
            key={thing.id}
            class={thing.move ? 'thing movable' : 'thing'}
            data-thing={thing.id}
            tabindex={thing.move ? 0 : undefined}
            role={thing.move ? 'button' : 'img'}
            aria-roledescription={thing.move ? 'movable point' : undefined}
            aria-label={spoken(thing)}
            opacity={thing.faint ? 0.35 : 1}
            onKeyDown={(event) => press(thing, event)}
            onPointerDown={(event) => {
              if (!thing.move) return;
              held.current = thing.id;
              box.current?.setPointerCapture(event.pointerId);
              event.currentTarget.focus();
              event.preventDefault();
            }}
          >
            <Shape thing={thing} at={where(thing.at)} />
          </g>
        ))}
      </svg>
    </figure>
  );
}

function spoken({ name, at, told }: Thing): string {
  return `${name} at ${at.map((x) => fixed(x, 2)).join(', ')}${told ? `, ${told}` : ''}`;
}

function clip(value: number): number {
  return Math.max(-HALF + 4, Math.min(HALF - 4, value));
}

function cross(at: number): string {
  return `M${at} ${-HALF}V${HALF}M${-HALF} ${at}H${HALF}`;
}

function grid(range: number): number[] {
  const most = Math.floor(range);
  return Array.from({ length: 2 * most + 1 }, (_, i) => i - most).filter((each) => each !== 0);
}

// One path for all points: thousands of elements would be slow.
function dust(points: Matrix, unit: number): string {
  return points
    .filter(([x, y]) => Math.abs(x * unit) < HALF && Math.abs(y * unit) < HALF)
    .map(([x, y]) => `M${(x * unit).toFixed(1)} ${(-y * unit).toFixed(1)}h0`)
    .join('');
}

function Shape({ thing, at: [x, y] }: { thing: Thing; at: [number, number] }) {
  const { shape, color, share = 1, label } = thing;
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
  const r = 4 + 2.5 * share;
  const fill = { fill: color, 'fill-opacity': 0.12 + 0.88 * share, stroke: color };
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
