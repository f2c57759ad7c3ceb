// The panel on attention in the plane: a list of presets, the claim of each, and the plane.

import { FormattedText } from '../report/page-frame';
import { PlaneView } from './plane-view';
import { PRESETS } from './presets';
import { findPreset, type State } from './page-state';
import type { Statements } from './claim-statements';

const TOPIC_NAMES = {
  1: 'What one query can retrieve',
  2: 'A hand-made self-attention layer',
  3: 'Temperature, masks, perturbations',
};

interface Props {
  state: State;
  change: (changes: Partial<State>) => void;
  statements: Statements;
}

export function PlanePanel({ state, change, statements }: Props) {
  const { plane } = state;
  const preset = findPreset(state.preset);
  const selectPreset = (id: string): void => change({ preset: id, plane: findPreset(id).plane });
  const presetIndex = PRESETS.indexOf(preset);
  return (
    <>
      <div class="presets">
        <label class="dim" for="preset">
          Try
        </label>
        <select
          id="preset"
          value={preset.id}
          onChange={(event) => selectPreset(event.currentTarget.value)}
        >
          {([1, 2, 3] as const).map((topic) => (
            <optgroup key={topic} label={TOPIC_NAMES[topic]}>
              {PRESETS.filter((each) => each.topic === topic).map((each) => (
                <option key={each.id} value={each.id}>
                  {each.title}
                </option>
              ))}
            </optgroup>
          ))}
        </select>
        <button
          type="button"
          aria-label="Previous"
          disabled={presetIndex === 0}
          onClick={() => selectPreset(PRESETS[presetIndex - 1].id)}
        >
          ←
        </button>
        <button
          type="button"
          aria-label="Next"
          disabled={presetIndex === PRESETS.length - 1}
          onClick={() => selectPreset(PRESETS[presetIndex + 1].id)}
        >
          →
        </button>
        <button
          type="button"
          class="plainly"
          disabled={plane === preset.plane}
          onClick={() => selectPreset(preset.id)}
        >
          Reset
        </button>
      </div>
      <p class="claim-statement">
        <span class="dim">Claim {preset.id}: </span>
        <FormattedText letters text={statements.get(preset.id) ?? ''} />
      </p>
      <p class="try">
        <FormattedText letters text={preset.text} />{' '}
        <span class="dim small">
          Run it: <code>attnlab claims show {preset.id}</code>
        </span>
      </p>
      <PlaneView
        presetPlane={preset.plane}
        plane={plane}
        replace={(next) => change({ plane: next })}
      />
    </>
  );
}
