// Below the controls of the effect view: the heads that are off, and what the model predicts now.

import { useEffect, useState } from 'preact/hooks';
import type { Capture } from '../capture';
import type { Choices } from '../choices';
import { headName, layerName } from '../names';
import { countedHeads, switchRequest, type Candidate, type SwitchedPrediction } from '../switch-heads';
import type { Side } from '../capture-format';
import { isolate, quoted, short, wholePercent } from '../../shared/readable-text';
import { chosenTarget, targetSequence, type ChosenTarget } from '../views/effect-data';

interface Props {
  capture: Capture;
  choices: Choices;
  change: (changes: Partial<Choices>) => void;
}

export function HeadSwitches({ capture, choices, change }: Props) {
  const { switchHeads } = capture;
  const side = capture.header.sides[choices.side];
  const [shown, setShown] = useState<{ answer: SwitchedPrediction; changed: boolean } | null>(null);
  const [failure, setFailure] = useState('');
  const target = chosenTarget(side, choices);
  const request = JSON.stringify(switchRequest(side, choices.off, target.position));
  const isLive = switchHeads !== undefined && choices.side === 0;
  useEffect(() => {
    if (!switchHeads || !isLive) return undefined;
    const controller = new AbortController();
    const ifCurrent = (act: () => void) => (): void => void (!controller.signal.aborted && act());
    const asked = JSON.parse(request) as ReturnType<typeof switchRequest>;
    switchHeads(asked, controller.signal).then(
      (answer) => ifCurrent(() => {
        setFailure('');
        setShown({ answer, changed: asked.heads.length > 0 }); // until then the old answer is shown
      })(),
      (error: unknown) => ifCurrent(() =>
        setFailure(error instanceof Error ? error.message : String(error)))(),
    );
    return () => controller.abort();
  }, [switchHeads, isLive, request]);
  if (!isLive) return null;
  const heads = countedHeads(side);
  const nameOf = (index: number): string =>
    `${layerName(side, heads[index].layer)}.${headName(side.layers[heads[index].layer], heads[index].head)}`;
  return (
    <section class="switches" aria-label="Heads that are off">
      <div class="row">
        {choices.off.length === 0 ? (
          <span class="dim">Click heads in the grid to switch them off.</span>
        ) : (
          <>
            <span class="dim">Off</span>
            {choices.off.map((index) => (
              <button
                key={index}
                type="button"
                class="chip"
                title={`Switch head ${nameOf(index)} on again`}
                onClick={() => change({ off: choices.off.filter((each) => each !== index) })}
              >
                {nameOf(index)} <span aria-hidden="true">×</span>
              </button>
            ))}
            <button type="button" onClick={() => change({ off: [] })}>
              All on
            </button>
          </>
        )}
      </div>
      {failure && (
        <p class="warn" role="alert">
          {failure}
        </p>
      )}
      {shown && !failure && <Prediction {...shown} where={place(side, target)} />}
    </section>
  );
}

// "After “of”", or "At token 3" of a masked text; empty where the model chooses.
function place(side: Side, { position }: ChosenTarget): string {
  const sequence = targetSequence(side);
  if (position === null || sequence === null) return '';
  if (side.effects?.kind === 'masked') return `At token ${position}`;
  return `After ${quoted(side.sequences[sequence].tokens[position].text, 16)}`;
}

function Prediction(
  { answer, changed, where }: { answer: SwitchedPrediction; changed: boolean; where: string },
) {
  const { target, top } = answer;
  const listed = top.some(({ token }) => token === target.token) ? top : [...top, target];
  return (
    <table class="prediction" aria-live="polite">
      <thead>
        <tr>
          <th>{where ? `${where} the model predicts` : 'The model predicts'}</th>
          <th class="number">all heads</th>
          {changed && <th class="number">without these</th>}
        </tr>
      </thead>
      <tbody>
        {listed.map((each, i) => (
          <tr key={i} class={each.token === target.token ? 'chosen' : ''}>
            <td>{isolate(short(each.token))}</td>
            <Share value={each.before} kind="before" />
            {changed && <Share value={each.after} kind="after" />}
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function Share({ value, kind }: { value: Candidate['after']; kind: 'before' | 'after' }) {
  return (
    <td class={`number share ${kind}`}>
      <span class="bar" style={{ '--share': Math.min(1, value) }} />
      {wholePercent(value)}
    </td>
  );
}
