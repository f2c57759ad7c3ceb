// One claim with its reasons, what was measured, and its figure beside the control's.

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
}

const SOURCES: Record<string, string> = {
  course: 'As courses teach it',
  paper: 'As papers state it',
  attnlab: 'Added by attnlab',
};

export function Opened({ claim, shown, change }: Props) {
  const { control } = claim;
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
        {claim.plot && <Figure title="Experiment" plot={claim.plot} {...{ shown, change }} />}
        {control.plot && <Figure title="Control" plot={control.plot} {...{ shown, change }} />}
      </div>
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
