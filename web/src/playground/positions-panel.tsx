// The panel on positions: position codes as clocks that a matrix turns, and scores by distance.

import { useEffect, useMemo, useState } from 'preact/hooks';
import { Figure } from '../report/figure';
import { formatFixed, formatLong, formatShort } from '../report/number-format';
import type { Lines } from '../report/plot-data';
import { DEFAULT_FIGURE_OPTIONS } from '../report/figure-options';
import { SettingSlider } from './controls';
import { multiply, dot, positionCode, rotary, shiftMatrix } from './math';
import type { Matrix, Vector } from './math';
import { normalGenerator } from './random';
import { RANGES, type PositionChoices } from './page-state';

interface Props {
  choices: PositionChoices;
  change: (changes: Partial<PositionChoices>) => void;
}

const MAX_DISTANCE = 40; // largest distance in the plots
const SHIFT = 1000; // shift of both positions, to show that the score stays the same

export function PositionsPanel({ choices, change }: Props) {
  const { width, t, steps, s } = choices;
  const sliderProps = { values: choices, change };
  const base = 10 ** choices.base;
  const code = positionCode(t, width, base);
  const matrix = shiftMatrix(steps, width, base);
  const rotated = multiply(matrix, code);
  const expected = positionCode(t + steps, width, base);
  const largestError = Math.max(...rotated.map((x, i) => Math.abs(x - expected[i])));
  const [q, k] = useMemo(() => randomQueryAndKey(width), [width]);
  const score = (at: number, to: number): number => dot(rotary(q, at, base), rotary(k, to, base));
  const codeProduct = (distance: number): number =>
    dot(code, positionCode(t + distance, width, base));
  const [codeView, setCodeView] = useState(DEFAULT_FIGURE_OPTIONS);
  const [rotaryView, setRotaryView] = useState(DEFAULT_FIGURE_OPTIONS);
  const [isRunning, setIsRunning] = useState(false);
  useEffect(() => {
    if (!isRunning) return undefined;
    const timer = setInterval(() => change({ t: t >= RANGES.t.high ? 0 : t + 1 }), 400);
    return () => clearInterval(timer);
  }, [isRunning, t]);
  return (
    <>
      <p class="try">
        A position code is a row of clocks, each slower than the one before: a sine and a cosine
        give the direction of its hand. One matrix M turns every hand by its own angle. So it leads
        from any position to the next, p<sub>t+1</sub> = M p<sub>t</sub>, and M<sup>k</sup> leads k
        steps forward.
      </p>
      <div class="settings">
        <section>
          <SettingSlider {...sliderProps} field="t" name="position t" />
          <span class="row">
            <button type="button" onClick={() => change({ t: Math.min(RANGES.t.high, t + steps) })}>
              Turn by M<sup>k</sup>
            </button>
            <button type="button" aria-pressed={isRunning} onClick={() => setIsRunning(!isRunning)}>
              {isRunning ? 'Stop' : 'Run'}
            </button>
          </span>
        </section>
        <section>
          <SettingSlider {...sliderProps} field="steps" name="steps k" />
          <SettingSlider {...sliderProps} field="width" name="width d" label="width" />
        </section>
        <section>
          <SettingSlider
            {...sliderProps}
            field="base"
            name="base of the wavelengths"
            text={formatShort(Math.round(base))}
          />
          <SettingSlider
            {...sliderProps}
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
            <Clocks before={code} after={rotated} steps={steps} />
            <p class="small">
              Largest difference between M<sup>{steps}</sup> p<sub>{t}</sub> and p
              <sub>{t + steps}</sub>:{' '}
              <span class="number">{formatLong(Number(largestError.toPrecision(2)))}</span>
            </p>
          </div>
          <Figure
            title="Position codes: dot product by distance"
            plot={makeDistancePlot('p_s · p_t', codeProduct, steps)}
            options={codeView}
            change={setCodeView}
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
              plot={makeDistancePlot('q_s · k_t', (distance) => score(s, s + distance), t - s)}
              options={rotaryView}
              change={setRotaryView}
            />
            <p class="small">
              q at s = {s}, k at t = {t}: <span class="number">{formatFixed(score(s, t), 6)}</span>. Both
              moved by {formatShort(SHIFT)}:{' '}
              <span class="number">{formatFixed(score(s + SHIFT, t + SHIFT), 6)}</span>.
            </p>
          </div>
        </div>
      </div>
    </>
  );
}

function randomQueryAndKey(width: number): [Vector, Vector] {
  const normal = normalGenerator(5);
  const normalVector = (): Vector => Array.from({ length: width }, normal);
  return [normalVector(), normalVector()];
}

function makeDistancePlot(
  y: string,
  valueAt: (distance: number) => number,
  currentDistance: number,
): Lines {
  const points = Array.from({ length: 2 * MAX_DISTANCE + 1 }, (_, i) => {
    const distance = i - MAX_DISTANCE;
    return { x: distance, y: valueAt(distance), low: null, high: null };
  });
  const isVisible = Math.abs(currentDistance) <= MAX_DISTANCE;
  return {
    kind: 'lines',
    x: 'distance t - s',
    y,
    xLog: false,
    yLog: false,
    series: [{ name: y, points }],
    marks: isVisible
      ? [{ label: `${currentDistance}`.replace('-', '−'), x: currentDistance, y: null }]
      : [],
  };
}

function Clocks({ before, after, steps }: { before: Vector; after: Vector; steps: number }) {
  const clocks = Array.from({ length: before.length / 2 }, (_, i) => i);
  const describeHand = (code: Vector, i: number): string =>
    `sine ${formatFixed(code[2 * i], 2)}, cosine ${formatFixed(code[2 * i + 1], 2)}`;
  const handPath = (code: Vector, i: number): string =>
    `M0 0L${(40 * code[2 * i]).toFixed(2)} ${(-40 * code[2 * i + 1]).toFixed(2)}`;
  return (
    <div class="clocks">
      {clocks.map((i) => (
        <svg
          key={i}
          viewBox="-50 -50 100 100"
          role="img"
          aria-label={`clock ${i + 1}: ${describeHand(before, i)}; ${steps} steps later: ${describeHand(after, i)}`}
        >
          <circle class="face" r="46" />
          <path class="hand before" d={handPath(before, i)} />
          <path class="hand after" d={handPath(after, i)} />
          <circle r="3" class="pin" />
        </svg>
      ))}
    </div>
  );
}

// Blue for positive entries, orange for negative ones, with numbers if the matrix is small.
function MatrixPicture({ matrix }: { matrix: Matrix }) {
  const size = matrix.length;
  return (
    <svg
      class="matrix-picture"
      viewBox={`0 0 ${10 * size} ${10 * size}`}
      role="img"
      aria-label="The shift matrix: a two by two rotation for each clock, zero elsewhere"
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
                <title>{`row ${i + 1}, column ${j + 1}: ${formatFixed(value, 4)}`}</title>
              </rect>
              {inBlock && size <= 10 && (
                <text x={10 * j + 5} y={10 * i + 6.2} class={Math.abs(value) > 0.6 ? 'strong' : ''}>
                  {formatFixed(value, 2)}
                </text>
              )}
            </g>
          );
        }),
      )}
    </svg>
  );
}
