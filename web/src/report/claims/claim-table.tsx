// The table of claims; a row opens to show the details of a claim.

import { useContext } from 'preact/hooks';
import { PageContext } from '../../shared/page-address';
import { ErrorBoundary } from '../../shared/error-boundary';
import { formatShort } from '../number-format';
import { FormattedText } from '../page-frame';
import { plainText } from '../text-format';
import { figureOptions, type Choices } from './page-choices';
import { formatControlVerdict, formatInterval, SIGNS, formatVerdict, type Claim, type JudgedResult, type Ledger } from './ledger';
import { ClaimActionsContext, type ClaimActions } from './claim-actions';
import { ClaimDetails } from './claim-details';

interface Props {
  ledger: Ledger;
  shown: Claim[];
  choices: Choices;
  change: (some: Partial<Choices>) => void;
}

export function ClaimTable({ ledger, shown, choices, change }: Props) {
  if (!shown.length) return <p class="none dim">No claim matches the filters.</p>;
  const several = ledger.topics.length > 1;
  return (
    <table class="claims" role="table" aria-label="Claims" onKeyDown={step}>
      <thead role="rowgroup">
        <tr role="row">
          {['Verdict', 'Statement', 'Measured', 'Holds if', 'Control'].map((name) => (
            <th key={name} role="columnheader" scope="col">
              {name}
            </th>
          ))}
        </tr>
      </thead>
      {ledger.topics.map(({ id, name, number }) => {
        const claims = shown.filter((each) => each.topic === id);
        return (
          claims.length > 0 && (
            <tbody key={id} role="rowgroup">
              {several && (
                <tr role="row" class="topic">
                  <th role="rowheader" scope="rowgroup" colSpan={5}>
                    <h2>
                      {number}. <bdi>{plainText(name)}</bdi>
                    </h2>
                  </th>
                </tr>
              )}
              {claims.map((claim) => (
                <Row key={claim.id} {...{ claim, choices, change }} mixed={!ledger.size} />
              ))}
            </tbody>
          )
        );
      })}
    </table>
  );
}

// Arrow keys go from one statement to the next.
function step(event: KeyboardEvent): void {
  const by = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  const at = event.target as HTMLElement;
  if (!by || !at.classList.contains('statement')) return;
  const table = at.closest('table');
  const all = [...(table?.querySelectorAll<HTMLElement>('button.statement') ?? [])];
  const next = all[all.indexOf(at) + by];
  if (!next) return;
  event.preventDefault();
  next.focus();
}

interface RowProps {
  claim: Claim;
  mixed: boolean; // claims may have different sizes
  choices: Choices;
  change: (some: Partial<Choices>) => void;
}

function Row({ claim, mixed, choices, change }: RowProps) {
  const { address } = useContext(PageContext);
  const actions = useContext(ClaimActionsContext);
  const open = choices.open.includes(claim.id);
  const toggle = (): void => change({ open: turned(choices.open, claim.id, !open), at: '' });
  // a reason has more space in another column
  const idle = claim.outcome === 'failed' || claim.outcome === 'not run';
  const text = idle ? claim.condition : claim.measured;
  const body = `claim-${claim.id}`;
  return (
    <>
      <tr role="row" class={open ? 'claim open' : 'claim'} id={`row-${claim.id}`}>
        <td role="cell" class="verdict">
          <Verdict judged={idle ? { ...claim, condition: '' } : claim} />
        </td>
        <td role="cell" class="said">
          <button
            type="button"
            class="statement"
            aria-expanded={open}
            aria-controls={open ? body : undefined}
            onClick={toggle}
          >
            <Statement claim={claim} />
          </button>
          <a class="id" href={address.link(claim.id)} title="Link to this claim">
            {plainText(claim.id)}
          </a>
          {actions && <RunButton {...{ claim, actions }} />}
          {mixed && claim.size && (
            <span class="dim small ran">
              {plainText(claim.size)}, seed {claim.seed}
            </span>
          )}
        </td>
        <td role="cell" class="measured" data-name="Measured">
          {claim.figure && (
            <>
              <strong class="number"><FormattedText text={formatShort(claim.figure.value)} /></strong>{' '}
              <span class="dim number small"><FormattedText text={formatInterval(claim.figure)} /></span>
            </>
          )}
          {text && (
            <div class="dim small">
              <FormattedText letters text={text} />
            </div>
          )}
        </td>
        <td role="cell" class="number" data-name="Holds if">
          {claim.figure && <FormattedText letters text={claim.threshold} />}
        </td>
        <td
          role="cell"
          class={claim.trusted === false ? 'control doubt' : 'control'}
          data-name="Control"
        >
          {plainText(formatControlVerdict(claim))}
        </td>
      </tr>
      {open && (
        <tr role="row" class="body" id={body}>
          <td role="cell" colSpan={5}>
            <ErrorBoundary what={claim}>
              <ClaimDetails
                claim={claim}
                options={figureOptions(choices, claim.id)}
                change={(shown) => change({ figures: { ...choices.figures, [claim.id]: shown } })}
                tried={choices.tried.includes(claim.id)}
                setTried={(on) => change({ tried: turned(choices.tried, claim.id, on) })}
              />
            </ErrorBoundary>
          </td>
        </tr>
      )}
    </>
  );
}

function RunButton({ claim, actions }: { claim: Claim; actions: ClaimActions }) {
  const isRunning = actions.running.has(claim.id);
  return (
    <button
      type="button"
      class="plainly run-claim"
      disabled={actions.busy}
      aria-label={`Run ${plainText(claim.id)}`}
      onClick={() => actions.run(claim.id)}
    >
      {isRunning ? 'running …' : 'Run'}
    </button>
  );
}

function turned(list: string[], id: string, on: boolean): string[] {
  return on ? [...list, id] : list.filter((each) => each !== id);
}

export function Statement({ claim }: { claim: Claim }) {
  return claim.quoted ? (
    <>
      “<FormattedText letters text={claim.statement} />”
    </>
  ) : (
    <FormattedText letters text={claim.statement} />
  );
}

export function Verdict({ judged }: { judged: JudgedResult }) {
  const outcome = judged.outcome ?? 'not run';
  return (
    <span class="outcome" data-outcome={outcome}>
      <i class="sign" data-outcome={outcome} aria-hidden="true">
        {SIGNS[outcome]}
      </i>
      <span>
        <FormattedText letters text={formatVerdict(judged)} />
      </span>
    </span>
  );
}
