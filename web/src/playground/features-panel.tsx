// The panel on random features: settings, the kernel by angle, and the error by number of features.

import { useMemo, useState } from 'preact/hooks';
import { Figure } from '../report/figure';
import { formatFixed, formatShort } from '../report/number-format';
import type { Lines, Series } from '../report/plot-data';
import { DEFAULT_FIGURE_OPTIONS } from '../report/figure-options';
import {
  kernelCurve,
  errorDecay,
  attentionErrors,
  FEATURE_KINDS,
  type KernelCurve,
  type ErrorDecay,
} from './feature-errors';
import { ChoiceButtons, SettingSlider } from './controls';
import type { FeatureChoices } from './page-state';

interface Props {
  choices: FeatureChoices;
  change: (changes: Partial<FeatureChoices>) => void;
}

const FEATURE_NAMES = { positive: 'positive features', trigonometric: 'sin/cos features' };

export function FeaturesPanel({ choices, change }: Props) {
  const { d, power, size, orthogonal, seed } = choices;
  const sliderProps = { values: choices, change };
  const curve = useMemo(() => kernelCurve(choices), [choices]);
  const errors = useMemo(() => attentionErrors(choices), [choices]);
  const decay = useMemo(() => errorDecay(choices), [d, size, orthogonal, seed]);
  const [curveView, setCurveView] = useState(DEFAULT_FIGURE_OPTIONS);
  const [decayView, setDecayView] = useState(DEFAULT_FIGURE_OPTIONS);
  const rows: [string, number, number | null][] = [
    ['positive', errors.weights.positive, errors.notPositive.positive],
    ['sin/cos', errors.weights.trigonometric, errors.notPositive.trigonometric],
    ['equal weights', errors.uniform, null],
  ];
  return (
    <>
      <p class="try">
        Softmax attention weighs keys by the kernel exp(q·k/√d). Random features approximate this
        kernel by a dot product of two short vectors, which makes attention linear in the length of
        the sequence. Increase the size of the inputs and see how many features are necessary.
        Sin/cos features are exact at angle 0 and fail where the true kernel is small.
      </p>
      <div class="settings">
        <section>
          <SettingSlider
            {...sliderProps}
            field="power"
            name="features"
            label="number of features"
            text={String(2 ** power)}
          />
          <SettingSlider
            {...sliderProps}
            field="size"
            name="size of inputs, |q|²/√d"
            label="size of the inputs"
            text={formatFixed(size, 1)}
          />
        </section>
        <section>
          <SettingSlider {...sliderProps} field="d" name="dimensions d" label="dimensions" />
          <span class="row">
            <ChoiceButtons
              label="Directions"
              value={orthogonal ? 'orthogonal' : 'independent'}
              options={[
                ['orthogonal', 'orthogonal directions'],
                ['independent', 'independent'],
              ]}
              onChange={(which) => change({ orthogonal: which === 'orthogonal' })}
            />
            <button type="button" class="plainly" onClick={() => change({ seed: seed + 1 })}>
              New random sample
            </button>
          </span>
        </section>
        <section>
          <table class="errors">
            <caption>Weight on wrong keys (48 keys)</caption>
            <tbody>
              {rows.map(([name, error, bad]) => (
                <tr key={name}>
                  <th scope="row">{name}</th>
                  <td class="number">{(100 * error).toFixed(1)}%</td>
                  <td class="dim">
                    {bad ? `${bad} of ${errors.queries} denominators are not positive` : ''}
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
          plot={makeCurvePlot(curve)}
          options={curveView}
          change={setCurveView}
          height={300}
        />
        <Figure
          title="How the error falls with more features"
          plot={makeDecayPlot(decay, 2 ** power)}
          options={decayView}
          change={setDecayView}
          height={300}
        />
      </div>
    </>
  );
}

function makeSeries(name: string, xs: number[], ys: number[]): Series {
  return { name, points: xs.map((x, i) => ({ x, y: ys[i], low: null, high: null })) };
}

function makeCurvePlot({ angles, exact, estimates }: KernelCurve): Lines {
  return {
    kind: 'lines',
    x: 'angle between q and k, degrees',
    y: 'kernel',
    xLog: false,
    yLog: false,
    series: [
      makeSeries('exp(q·k/√d)', angles, exact),
      ...FEATURE_KINDS.map((kind) => makeSeries(FEATURE_NAMES[kind], angles, estimates[kind])),
    ],
    marks: [],
  };
}

function makeDecayPlot({ counts, errors: errors }: ErrorDecay, currentCount: number): Lines {
  const [firstError] = errors.positive;
  const referenceCurve = counts.map((count) => firstError * Math.sqrt(counts[0] / count));
  return {
    kind: 'lines',
    x: 'features',
    y: 'relative error of the kernel',
    xLog: true,
    yLog: true,
    series: [
      makeSeries('proportional to 1/√features', counts, referenceCurve),
      ...FEATURE_KINDS.map((kind) => makeSeries(FEATURE_NAMES[kind], counts, errors[kind])),
    ],
    marks: [{ label: formatShort(currentCount), x: currentCount, y: null }],
  };
}
