// Attention in the plane: presets, each with its claim, and the plane.

import { Prose } from '../report/page';
import { PlaneView } from './plane-view';
import { PRESETS } from './presets';
import { presetOf, type State } from './state';
import type { Statements } from './statements';

const TOPICS = {
  1: 'What one query can retrieve',
  2: 'A hand-made self-attention layer',
  3: 'Temperature, masks, perturbations',
};

interface Props {
  state: State;
  change: (some: Partial<State>) => void;
  statements: Statements;
}

export function PlanePanel({ state, change, statements }: Props) {
  const { plane } = state;
  const preset = presetOf(state.preset);
  const choose = (id: string): void => change({ preset: id, plane: presetOf(id).plane });
  const at = PRESETS.indexOf(preset);
  return (
    <>
      <div class="presets">
        <label class="dim" for="preset">
          Try
        </label>
        <select
          id="preset"
          value={preset.id}
          onChange={(event) => choose(event.currentTarget.value)}
        >
          {([1, 2, 3] as const).map((topic) => (
            <optgroup key={topic} label={TOPICS[topic]}>
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
          disabled={at === 0}
          onClick={() => choose(PRESETS[at - 1].id)}
        >
          ←
        </button>
        <button
          type="button"
          aria-label="Next"
          disabled={at === PRESETS.length - 1}
          onClick={() => choose(PRESETS[at + 1].id)}
        >
          →
        </button>
        <button
          type="button"
          class="plainly"
          disabled={plane === preset.plane}
          onClick={() => choose(preset.id)}
        >
          Begin again
        </button>
      </div>
      <p class="said">
        <span class="dim">Claim {preset.id}: </span>
        <Prose text={statements.get(preset.id) ?? ''} />
      </p>
      <p class="try">
        <Prose text={preset.text} />{' '}
        <span class="dim small">
          Run it: <code>attnlab claims show {preset.id}</code>
        </span>
      </p>
      <PlaneView
        begun={preset.plane}
        plane={plane}
        replace={(next) => change({ plane: next })}
      />
    </>
  );
}
