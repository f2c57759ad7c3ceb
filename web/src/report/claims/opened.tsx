// One claim with its reasons, what was measured, and its figure beside the control's.

import { useMemo } from 'preact/hooks';
import { PRESETS } from '../../playground/presets';
import { PresetSection } from '../../playground/preset-section';
import { Figure } from '../figure';
import { short } from '../numbers';
import { Named, Prose } from '../page';
import { plain } from '../prose';
import type { Shown } from '../shown';
import { interval, type Claim, type Judged } from './ledger';
import { Verdict } from './table';

interface Props {
  claim: Claim;
  shown: Shown;
  change: (shown: Shown) => void;
  tried: boolean; // its preset of the playground is open
  attempt: (on: boolean) => void;
}

const SOURCES: Record<string, string> = {
  course: 'As courses teach it',
  paper: 'As papers state it',
  attnlab: 'Added by attnlab',
};

export function Opened({ claim, shown, change, tried, attempt }: Props) {
  const { control } = claim;
  const preset = PRESETS.find((each) => each.id === claim.id);
  // many controls are a line of the same figure
  const one = useMemo(() => JSON.stringify(claim.plot) === JSON.stringify(control.plot), [claim]);
  return (
    <div class="opened">
      <div class="words">
        <Named name="Why">
          <p>
            <Prose text={claim.why} />
          </p>
        </Named>
        {claim.measured && (
          <Named name="What was measured">
            <p>
              <Prose text={claim.measured} />. It holds if that is {plain(claim.threshold)}.
            </p>
          </Named>
        )}
        {claim.figure && <Found what="Found" judged={claim} />}
        {control.outcome && <Found what={`Control: ${control.what}`} judged={control} />}
        {claim.trusted === false && (
          <p class="doubt">
            The control should have got another verdict, so this one is not to be trusted.
          </p>
        )}
        {claim.details.length > 0 && (
          <dl>
            {claim.details.map(([name, value]) => (
              <div key={name}>
                <dt>
                  <Prose text={name} />
                </dt>
                <dd class="number">
                  <Prose text={value} />
                </dd>
              </div>
            ))}
          </dl>
        )}
        {preset && (
          <p class="attempt">
            <button type="button" aria-expanded={tried} onClick={() => attempt(!tried)}>
              {tried ? 'Close the plane' : 'Try it in the plane'}
            </button>
          </p>
        )}
        <p class="dim small">
          {SOURCES[claim.source] ?? plain(claim.source)}
          {claim.reference && (
            <>
              : <Prose text={claim.reference} />
            </>
          )}
          . {claim.seconds > 0 && `Ran ${short(claim.seconds)} s.`}
        </p>
      </div>
      <div class="figures">
        {claim.plot && (
          <Figure
            title={one ? 'Experiment and control' : 'Experiment'}
            plot={claim.plot}
            of={claim.id}
            {...{ shown, change }}
          />
        )}
        {control.plot && !one && (
          <Figure
            title="Control"
            plot={control.plot}
            of={claim.id}
            {...{ shown, change }}
          />
        )}
      </div>
      {preset && tried && <PresetSection preset={preset} />}
    </div>
  );
}

function Found({ what, judged }: { what: string; judged: Judged }) {
  return (
    <Named name={plain(what)}>
      <p class="found">
        {judged.figure && (
          <span class="number">
            <strong>{short(judged.figure.value)}</strong>{' '}
            {interval(judged.figure) && `(${interval(judged.figure)})`}
          </span>
        )}
        <Verdict judged={judged} />
      </p>
    </Named>
  );
}
