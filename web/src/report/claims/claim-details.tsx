// The details of a claim: its reason, the measurement, and the figures of experiment and control.

import { useContext, useMemo } from 'preact/hooks';
import { PRESETS } from '../../playground/presets';
import { ClaimPreset } from '../../playground/claim-preset';
import { Figure } from '../figure';
import { formatShort } from '../number-format';
import { NamedBlock, FormattedText } from '../page-frame';
import { plainText } from '../text-format';
import type { FigureOptions } from '../figure-options';
import { ClaimActionsContext } from './claim-actions';
import { formatInterval, type Claim, type JudgedResult } from './ledger';
import { Verdict } from './claim-table';

interface Props {
  claim: Claim;
  options: FigureOptions;
  change: (options: FigureOptions) => void;
  tried: boolean; // its preset is open in the plane
  setTried: (on: boolean) => void;
}

const SOURCES: Record<string, string> = {
  course: 'As courses teach it',
  paper: 'As papers state it',
  attnlab: 'Added by attnlab',
};

export function ClaimDetails({ claim, options, change, tried, setTried }: Props) {
  const { control } = claim;
  const actions = useContext(ClaimActionsContext);
  const preset = PRESETS.find((each) => each.id === claim.id);
  // many controls are a line in the same figure
  const sameFigure = useMemo(() => JSON.stringify(claim.plot) === JSON.stringify(control.plot), [claim]);
  return (
    <div class="opened">
      <div class="words">
        <NamedBlock name="Why">
          <p>
            <FormattedText letters text={claim.why} />
          </p>
        </NamedBlock>
        {claim.measured && (
          <NamedBlock name="What was measured">
            <p>
              <FormattedText letters text={claim.measured} />. It holds if that is <FormattedText letters text={claim.threshold} />.
            </p>
          </NamedBlock>
        )}
        {claim.figure && <Measurement what="Result" judged={claim} />}
        {control.outcome && <Measurement what={`Control: ${control.what}`} judged={control} />}
        {claim.trusted === false && (
          <p class="doubt">
            The control should have got another verdict, so do not trust this one.
          </p>
        )}
        {claim.details.length > 0 && (
          <dl>
            {claim.details.map(([name, value]) => (
              <div key={name}>
                <dt>
                  <FormattedText letters text={name} />
                </dt>
                <dd class="number">
                  <FormattedText letters text={value} />
                </dd>
              </div>
            ))}
          </dl>
        )}
        {preset && (
          <p class="attempt">
            <button type="button" aria-expanded={tried} onClick={() => setTried(!tried)}>
              {tried ? 'Close the plane' : 'Try it in the plane'}
            </button>
            {actions && <a href={actions.sceneLink(claim.id)}>Open its scene in the playground</a>}
          </p>
        )}
        <p class="dim small">
          {SOURCES[claim.source] ?? plainText(claim.source)}
          {claim.reference && (
            <>
              : <FormattedText text={claim.reference} />
            </>
          )}
          . {claim.seconds > 0 && `Ran ${formatShort(claim.seconds)} s.`}
        </p>
      </div>
      <div class="figures">
        {claim.plot && (
          <Figure
            title={sameFigure ? 'Experiment and control' : 'Experiment'}
            plot={claim.plot}
            owner={claim.id}
            {...{ options, change }}
          />
        )}
        {control.plot && !sameFigure && (
          <Figure
            title="Control"
            plot={control.plot}
            owner={claim.id}
            {...{ options, change }}
          />
        )}
      </div>
      {preset && tried && <ClaimPreset preset={preset} />}
    </div>
  );
}

function Measurement({ what, judged }: { what: string; judged: JudgedResult }) {
  return (
    <NamedBlock name={<FormattedText letters text={what} />}>
      <p class="found">
        {judged.figure && (
          <span class="number">
            <strong><FormattedText text={formatShort(judged.figure.value)} /></strong>{' '}
            {formatInterval(judged.figure) && <FormattedText text={`(${formatInterval(judged.figure)})`} />}
          </span>
        )}
        <Verdict judged={judged} />
      </p>
    </NamedBlock>
  );
}
