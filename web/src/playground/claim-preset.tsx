// One preset of the playground, shown beside its claim on the claims page.

import { useState } from 'preact/hooks';
import { FormattedText } from '../report/page-frame';
import { PlaneView } from './plane-view';
import type { Preset } from './presets';

export function ClaimPreset({ preset }: { preset: Preset }) {
  const [plane, setPlane] = useState(preset.plane);
  return (
    <section class="tried" aria-label={preset.title}>
      <h3>{preset.title}</h3>
      <p class="try">
        <FormattedText letters text={preset.text} />{' '}
        <button
          type="button"
          class="plainly"
          disabled={plane === preset.plane}
          onClick={() => setPlane(preset.plane)}
        >
          Reset
        </button>
      </p>
      <PlaneView presetPlane={preset.plane} plane={plane} replace={setPlane} />
    </section>
  );
}
