// Random features: sliders, the kernel by angle, and how the error falls.

import { useMemo, useState } from 'preact/hooks';
import { Figure } from '../report/figure';
import { fixed, short } from '../report/numbers';
import type { Lines, Series } from '../report/plot';
import { AS_GIVEN } from '../report/shown';
import { curve, decay, errors, KINDS, type Curve, type Decay } from './compare';
import { Choice, Setting } from './controls';
import type { FeatureChoices } from './state';

interface Props {
  choices: FeatureChoices;
  change: (some: Partial<FeatureChoices>) => void;
}

const NAMES = { positive: 'positive features', trigonometric: 'sin/cos features' };

export function FeaturesPanel({ choices, change }: Props) {
  const { d, power, size, orthogonal, seed } = choices;
  const of = { of: choices, change };
  const drawn = useMemo(() => curve(choices), [choices]);
  const found = useMemo(() => errors(choices), [choices]);
  const falls = useMemo(() => decay(choices), [d, size, orthogonal, seed]);
  const [one, setOne] = useState(AS_GIVEN);
  const [other, setOther] = useState(AS_GIVEN);
  const rows: [string, number, number | null][] = [
    ['positive', found.weights.positive, found.bad.positive],
    ['sin/cos', found.weights.trigonometric, found.bad.trigonometric],
    ['equal weights', found.uniform, null],
  ];
  return (
    <>
      <p class="try">
        Softmax weighs keys by exp(q·k/√d). Random features stand for that kernel by a product of
        two short vectors, which makes attention linear in length. Raise the size of the inputs and
        see how many features it takes; sin/cos features are exact at angle 0, and fail where the
        true kernel is small.
      </p>
      <div class="settings">
        <section>
          <Setting
            {...of}
            field="power"
            name="features"
            label="number of features"
            shown={String(2 ** power)}
          />
          <Setting
            {...of}
            field="size"
            name="size of inputs, |q|²/√d"
            label="size of the inputs"
            shown={fixed(size, 1)}
          />
        </section>
        <section>
          <Setting {...of} field="d" name="dimensions d" label="dimensions" />
          <span class="row">
            <Choice
              label="Draws"
              value={orthogonal ? 'orthogonal' : 'independent'}
              all={[
                ['orthogonal', 'orthogonal draws'],
                ['independent', 'independent'],
              ]}
              set={(which) => change({ orthogonal: which === 'orthogonal' })}
            />
            <button type="button" class="plainly" onClick={() => change({ seed: seed + 1 })}>
              Other draws
            </button>
          </span>
        </section>
        <section>
          <table class="errors">
            <caption>Weight on the wrong keys, of 48</caption>
            <tbody>
              {rows.map(([name, error, bad]) => (
                <tr key={name}>
                  <th scope="row">{name}</th>
                  <td class="number">{(100 * error).toFixed(1)}%</td>
                  <td class="dim">
                    {bad ? `${bad} of ${found.queries} denominators are not positive` : ''}
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </section>
      </div>
      <div class="two">
        <Figure
          title="The kernel and its estimates"
          plot={curvePlot(drawn)}
          shown={one}
          change={setOne}
          height={300}
        />
        <Figure
          title="How the error falls with more features"
          plot={decayPlot(falls, 2 ** power)}
          shown={other}
          change={setOther}
          height={300}
        />
      </div>
    </>
  );
}

function series(name: string, xs: number[], ys: number[]): Series {
  return { name, points: xs.map((x, i) => ({ x, y: ys[i], low: null, high: null })) };
}

function curvePlot({ angles, exact, estimates }: Curve): Lines {
  return {
    kind: 'lines',
    x: 'angle between q and k, degrees',
    y: 'kernel',
    xLog: false,
    yLog: false,
    series: [
      series('exp(q·k/√d)', angles, exact),
      ...KINDS.map((kind) => series(NAMES[kind], angles, estimates[kind])),
    ],
    marks: [],
  };
}

function decayPlot({ counts, errors: found }: Decay, now: number): Lines {
  const [first] = found.positive;
  const slope = counts.map((count) => first * Math.sqrt(counts[0] / count));
  return {
    kind: 'lines',
    x: 'features',
    y: 'relative error of the kernel',
    xLog: true,
    yLog: true,
    series: [
      series('falling as 1/√features', counts, slope),
      ...KINDS.map((kind) => series(NAMES[kind], counts, found[kind])),
    ],
    marks: [{ label: short(now), x: now, y: null }],
  };
}
