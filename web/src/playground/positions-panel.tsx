// Position codes as clocks that a matrix turns, and scores that depend on the distance alone.

import { useEffect, useMemo, useState } from 'preact/hooks';
import { Figure } from '../report/figure';
import { fixed, long, short } from '../report/numbers';
import type { Lines } from '../report/plot';
import { AS_GIVEN } from '../report/shown';
import { Setting } from './controls';
import { apply, dot, positionCode, rotary, shiftMatrix } from './math';
import type { Matrix, Vector } from './math';
import { normals } from './random';
import { RANGES, type PositionChoices } from './state';

interface Props {
  choices: PositionChoices;
  change: (some: Partial<PositionChoices>) => void;
}

const FAR = 40; // distances that are drawn
const MOVED = 1000; // both positions, to see that the score stays

export function PositionsPanel({ choices, change }: Props) {
  const { width, t, steps, s } = choices;
  const of = { of: choices, change };
  const base = 10 ** choices.base;
  const code = positionCode(t, width, base);
  const matrix = shiftMatrix(steps, width, base);
  const turned = apply(matrix, code);
  const wanted = positionCode(t + steps, width, base);
  const wrong = Math.max(...turned.map((x, i) => Math.abs(x - wanted[i])));
  const [q, k] = useMemo(() => pair(width), [width]);
  const score = (at: number, to: number): number => dot(rotary(q, at, base), rotary(k, to, base));
  const alike = (far: number): number => dot(code, positionCode(t + far, width, base));
  const [one, setOne] = useState(AS_GIVEN);
  const [other, setOther] = useState(AS_GIVEN);
  const [runs, setRuns] = useState(false);
  useEffect(() => {
    if (!runs) return undefined;
    const timer = setInterval(() => change({ t: t >= RANGES.t.high ? 0 : t + 1 }), 400);
    return () => clearInterval(timer);
  }, [runs, t]);
  return (
    <>
      <p class="try">
        A position is a row of clocks, each slower than the one before: a sine and a cosine are
        where its hand points. One matrix M turns every hand by its own angle, so it leads from any
        position to the next, p<sub>t+1</sub> = M p<sub>t</sub>, and M<sup>k</sup> leads k steps on.
      </p>
      <div class="settings">
        <section>
          <Setting {...of} field="t" name="position t" />
          <span class="row">
            <button type="button" onClick={() => change({ t: Math.min(RANGES.t.high, t + steps) })}>
              Turn by M<sup>k</sup>
            </button>
            <button type="button" aria-pressed={runs} onClick={() => setRuns(!runs)}>
              {runs ? 'Stop' : 'Run'}
            </button>
          </span>
        </section>
        <section>
          <Setting {...of} field="steps" name="steps k" />
          <Setting {...of} field="width" name="width d" label="width" />
        </section>
        <section>
          <Setting
            {...of}
            field="base"
            name="base of the wavelengths"
            shown={short(Math.round(base))}
          />
          <Setting
            {...of}
            field="s"
            name="position s of the query (rotary)"
            label="position of the query"
          />
        </section>
      </div>
      <div class="two">
        <div class="stack">
          <div>
            <h2>
              p<sub>{t}</sub>, and turned by M<sup>{steps}</sup>
            </h2>
            <Clocks before={code} after={turned} steps={steps} />
            <p class="small">
              Largest difference between M<sup>{steps}</sup> p<sub>{t}</sub> and{' '}
              p<sub>{t + steps}</sub>:{' '}
              <span class="number">{long(Number(wrong.toPrecision(2)))}</span>
            </p>
          </div>
          <Figure
            title="Position codes: product by distance"
            plot={distancePlot('p_s · p_t', alike, steps)}
            shown={one}
            change={setOne}
          />
        </div>
        <div class="stack">
          <div>
            <h2>
              M<sup>{steps}</sup>
            </h2>
            <MatrixPicture matrix={matrix} />
          </div>
          <div>
            <Figure
              title="Rotary codes: score by distance"
              plot={distancePlot('q_s · k_t', (far) => score(s, s + far), t - s)}
              shown={other}
              change={setOther}
            />
            <p class="small">
              q at s = {s}, k at t = {t}: <span class="number">{fixed(score(s, t), 6)}</span>. Both
              moved by {short(MOVED)}:{' '}
              <span class="number">{fixed(score(s + MOVED, t + MOVED), 6)}</span>.
            </p>
          </div>
        </div>
      </div>
    </>
  );
}

function pair(width: number): [Vector, Vector] {
  const normal = normals(5);
  const draw = (): Vector => Array.from({ length: width }, normal);
  return [draw(), draw()];
}

function distancePlot(y: string, at: (far: number) => number, now: number): Lines {
  const points = Array.from({ length: 2 * FAR + 1 }, (_, i) => {
    const far = i - FAR;
    return { x: far, y: at(far), low: null, high: null };
  });
  const inside = Math.abs(now) <= FAR;
  return {
    kind: 'lines',
    x: 'distance t - s',
    y,
    xLog: false,
    yLog: false,
    series: [{ name: y, points }],
    marks: inside ? [{ label: `${now}`.replace('-', '−'), x: now, y: null }] : [],
  };
}

function Clocks({ before, after, steps }: { before: Vector; after: Vector; steps: number }) {
  const clocks = Array.from({ length: before.length / 2 }, (_, i) => i);
  const said = (code: Vector, i: number): string =>
    `sine ${fixed(code[2 * i], 2)}, cosine ${fixed(code[2 * i + 1], 2)}`;
  const hand = (code: Vector, i: number): string =>
    `M0 0L${(40 * code[2 * i]).toFixed(2)} ${(-40 * code[2 * i + 1]).toFixed(2)}`;
  return (
    <div class="clocks">
      {clocks.map((i) => (
        <svg
          key={i}
          viewBox="-50 -50 100 100"
          role="img"
          aria-label={`clock ${i + 1}: ${said(before, i)}; ${steps} steps on ${said(after, i)}`}
        >
          <circle class="face" r="46" />
          <path class="hand before" d={hand(before, i)} />
          <path class="hand after" d={hand(after, i)} />
          <circle r="3" class="pin" />
        </svg>
      ))}
    </div>
  );
}

// Blue above nothing, orange below, with the numbers while there is room.
function MatrixPicture({ matrix }: { matrix: Matrix }) {
  const n = matrix.length;
  return (
    <svg
      class="matrix-picture"
      viewBox={`0 0 ${10 * n} ${10 * n}`}
      role="img"
      aria-label="The shift matrix: a two by two rotation for each clock, nothing elsewhere"
    >
      {matrix.map((row, i) =>
        row.map((value, j) => {
          const inBlock = Math.floor(i / 2) === Math.floor(j / 2);
          return (
            <g key={`${i} ${j}`}>
              <rect
                x={10 * j + 0.25}
                y={10 * i + 0.25}
                width="9.5"
                height="9.5"
                rx="0.8"
                class={inBlock ? 'entry' : 'entry nothing'}
                fill={value < 0 ? 'var(--c1)' : 'var(--c0)'}
                fill-opacity={inBlock ? 0.08 + 0.8 * Math.abs(value) : 0}
              >
                <title>{`row ${i + 1}, column ${j + 1}: ${fixed(value, 4)}`}</title>
              </rect>
              {inBlock && n <= 10 && (
                <text x={10 * j + 5} y={10 * i + 6.2} class={Math.abs(value) > 0.6 ? 'strong' : ''}>
                  {fixed(value, 2)}
                </text>
              )}
            </g>
          );
        }),
      )}
    </svg>
  );
}
