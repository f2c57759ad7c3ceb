// The settings of the plane: temperature, mask, noise, and queries.

import { Checkbox, ChoiceButtons, NumberBox, SettingSlider, Stepper } from './controls';
import { MAX_HEADS, MAX_KEYS, withKeyCount, withHeadCount, type Plane } from './plane-attention';

interface Props {
  plane: Plane;
  update: (changes: Partial<Plane>) => void;
  replace: (plane: Plane) => void;
}

export function PlaneSettings({ plane, update, replace }: Props) {
  const sliderProps = { values: plane, change: update };
  const hasNoise = plane.isotropic > 0 || (plane.radial > 0 && plane.noisy.includes(true));
  return (
    <div class="settings">
      <section>
        <h3>Scores</h3>
        <SettingSlider
          {...sliderProps}
          field="beta"
          name="inverse temperature β"
          label="inverse temperature beta"
        />
        <ChoiceButtons
          label="Mask"
          value={plane.how}
          options={[
            ['before', 'mask before the softmax'],
            ['after', 'after it'],
          ]}
          onChange={(how) => update({ how })}
        />
        <Stepper
          name={plane.self ? 'tokens' : 'keys'}
          value={plane.keys.length}
          low={1}
          high={MAX_KEYS}
          onChange={(count) => replace(withKeyCount(plane, count))}
        />
      </section>
      <section>
        <h3>Noise</h3>
        <SettingSlider
          {...sliderProps}
          field="isotropic"
          name="variance of every key"
          label="variance of the noise of every key"
        />
        <SettingSlider
          {...sliderProps}
          field="radial"
          name="variance of the length"
          label="variance of the length of noisy keys"
        />
        <span class="keys" role="group" aria-label="Keys of varying length">
          <span class="dim">of</span>
          {plane.noisy.map((on, i) => (
            <Checkbox
              key={i}
              name={`${plane.self ? 'x' : 'k'}${i + 1}`}
              checked={on}
              onChange={(next) =>
                update({ noisy: plane.noisy.map((each, j) => (j === i ? next : each)) })
              }
            />
          ))}
        </span>
        {hasNoise && (
          <>
            <SettingSlider
              {...sliderProps}
              field="samples"
              name="samples"
              label="number of samples"
            />
            <button type="button" class="plainly" onClick={() => update({ seed: plane.seed + 1 })}>
              New random sample
            </button>
          </>
        )}
      </section>
      <section>
        <h3>Queries</h3>
        <ChoiceButtons
          label="Where queries come from"
          value={plane.self ? 'self' : 'free'}
          options={[
            ['free', 'heads'],
            ['self', 'self-attention'],
          ]}
          onChange={(from) => update({ self: from === 'self' })}
        />
        {plane.self ? (
          <>
            <Checkbox
              name="causal mask"
              checked={plane.causal}
              onChange={(causal) => update({ causal })}
            />
            <div class="matrices">
              <MatrixInput name="Q" value={plane.query} onChange={(query) => update({ query })} />
              <MatrixInput name="V" value={plane.value} onChange={(value) => update({ value })} />
            </div>
          </>
        ) : (
          <>
            <Stepper
              name="heads"
              value={plane.queries.length}
              low={1}
              high={MAX_HEADS}
              onChange={(count) => replace(withHeadCount(plane, count))}
            />
            {plane.queries.length > 1 && (
              <ChoiceButtons
                label="Heads"
                value={plane.identical ? 'same' : 'own'}
                options={[
                  ['own', 'different queries'],
                  ['same', 'identical queries'],
                ]}
                onChange={(which) => update({ identical: which === 'same' })}
              />
            )}
          </>
        )}
      </section>
    </div>
  );
}

function MatrixInput(props: {
  name: string;
  value: number[];
  onChange: (value: number[]) => void;
}) {
  const { name, value, onChange } = props;
  return (
    <span class="matrix" role="group" aria-label={`Matrix ${name}`}>
      <span class="of">{name} =</span>
      <span class="entries">
        {value.map((each, i) => (
          <NumberBox
            key={i}
            label={`${name}, row ${Math.floor(i / 2) + 1}, column ${(i % 2) + 1}`}
            value={each}
            onChange={(next) => onChange(value.map((old, j) => (j === i ? next : old)))}
          />
        ))}
      </span>
    </span>
  );
}
