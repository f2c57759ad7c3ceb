// What can be set beside the points themselves.

import { Check, Choice, NumberBox, Setting, Stepper } from './controls';
import { MOST_HEADS, MOST_KEYS, resized, withHeads, type Plane } from './plane';

interface Props {
  plane: Plane;
  set: (some: Partial<Plane>) => void;
  replace: (plane: Plane) => void;
}

export function Settings({ plane, set, replace }: Props) {
  const of = { of: plane, change: set };
  const noise = plane.isotropic > 0 || (plane.radial > 0 && plane.noisy.includes(true));
  return (
    <div class="settings">
      <section>
        <h3>Scores</h3>
        <Setting
          {...of}
          field="beta"
          name="inverse temperature β"
          label="inverse temperature beta"
        />
        <Choice
          label="Mask"
          value={plane.how}
          all={[
            ['before', 'mask before the softmax'],
            ['after', 'after it'],
          ]}
          set={(how) => set({ how })}
        />
        <Stepper
          name={plane.self ? 'tokens' : 'keys'}
          value={plane.keys.length}
          low={1}
          high={MOST_KEYS}
          set={(count) => replace(resized(plane, count))}
        />
      </section>
      <section>
        <h3>Noise</h3>
        <Setting
          {...of}
          field="isotropic"
          name="variance of every key"
          label="variance of the noise of every key"
        />
        <Setting
          {...of}
          field="radial"
          name="variance of the length"
          label="variance of the length of noisy keys"
        />
        <span class="keys" role="group" aria-label="Keys of varying length">
          <span class="dim">of</span>
          {plane.noisy.map((on, i) => (
            <Check
              key={i}
              name={`${plane.self ? 'x' : 'k'}${i + 1}`}
              on={on}
              set={(next) => set({ noisy: plane.noisy.map((each, j) => (j === i ? next : each)) })}
            />
          ))}
        </span>
        {noise && (
          <>
            <Setting {...of} field="samples" name="samples" label="number of samples" />
            <button type="button" class="plainly" onClick={() => set({ seed: plane.seed + 1 })}>
              Other draws
            </button>
          </>
        )}
      </section>
      <section>
        <h3>Queries</h3>
        <Choice
          label="Where queries come from"
          value={plane.self ? 'self' : 'free'}
          all={[
            ['free', 'heads'],
            ['self', 'self-attention'],
          ]}
          set={(from) => set({ self: from === 'self' })}
        />
        {plane.self ? (
          <>
            <Check name="looks back only" on={plane.causal} set={(causal) => set({ causal })} />
            <div class="matrices">
              <MatrixBox name="Q" value={plane.query} set={(query) => set({ query })} />
              <MatrixBox name="V" value={plane.value} set={(value) => set({ value })} />
            </div>
          </>
        ) : (
          <>
            <Stepper
              name="heads"
              value={plane.queries.length}
              low={1}
              high={MOST_HEADS}
              set={(count) => replace(withHeads(plane, count))}
            />
            {plane.queries.length > 1 && (
              <Choice
                label="Heads"
                value={plane.identical ? 'same' : 'own'}
                all={[
                  ['own', 'each its own query'],
                  ['same', 'identical'],
                ]}
                set={(which) => set({ identical: which === 'same' })}
              />
            )}
          </>
        )}
      </section>
    </div>
  );
}

function MatrixBox(props: { name: string; value: number[]; set: (value: number[]) => void }) {
  const { name, value, set } = props;
  return (
    <span class="matrix" role="group" aria-label={`Matrix ${name}`}>
      <span class="of">{name} =</span>
      <span class="entries">
        {value.map((each, i) => (
          <NumberBox
            key={i}
            label={`${name}, row ${Math.floor(i / 2) + 1}, column ${(i % 2) + 1}`}
            value={each}
            set={(next) => set(value.map((old, j) => (j === i ? next : old)))}
          />
        ))}
      </span>
    </span>
  );
}
