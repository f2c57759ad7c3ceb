// The claims page: counts of verdicts, filters, and the table.

import { useContext, useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { toCsv } from '../../shared/csv';
import { PageContext, useAddressState } from '../../shared/page-address';
import { csvFile } from '../../shared/download';
import { DownloadButtons } from '../../shared/download-buttons';
import { PageHeading } from '../page-frame';
import { spellSpecialNumbers } from '../plot-data';
import { plainText } from '../text-format';
import { matches, parseChoices, printChoices, type Choices } from './page-choices';
import { OUTCOMES, SIGNS, claimsTable, type Claim, type Ledger, type Outcome } from './ledger';
import { Overview } from './overview';
import { ClaimTable } from './claim-table';

interface Props {
  ledger: Ledger;
  root: HTMLElement;
  shows?: (claims: Claim[]) => void; // hears what the filters leave
}

export function App({ ledger, root, shows }: Props) {
  const { address } = useContext(PageContext);
  const [choices, setChoices] = useState(() => parseChoices(address.read() ?? '', ledger));
  const change = (some: Partial<Choices>): void => setChoices((old) => ({ ...old, ...some }));
  useAddressState(printChoices(choices), (text) => setChoices(parseChoices(text, ledger)));
  const shown = useMemo(
    () => ledger.claims.filter((each) => matches(each, choices)),
    [ledger, choices],
  );
  useEffect(() => shows?.(shown), [shown]);
  const search = useRef<HTMLInputElement>(null);
  useEffect(() => {
    root.dataset.painted = 'claims';
    const press = (event: KeyboardEvent): void => {
      const [at] = event.composedPath();
      const typing = at instanceof HTMLElement && /INPUT|SELECT/.test(at.tagName);
      if (event.key !== '/' || typing || event.ctrlKey || event.metaKey) return;
      event.preventDefault();
      search.current?.focus();
    };
    document.addEventListener('keydown', press);
    return () => document.removeEventListener('keydown', press);
  }, []);
  useEffect(() => {
    const row = choices.at && root.querySelector(`#${CSS.escape(`row-${choices.at}`)}`);
    if (row) row.scrollIntoView();
  }, [choices.at]);
  const allOpen = shown.length > 0 && shown.every((each) => choices.open.includes(each.id));
  return (
    <div class="sheet">
      <header>
        <PageHeading root={root} title="What is said about attention, run and judged" />
        <p class="lead">
          Courses and papers make these claims about attention. Each is tested by a small experiment
          with a stated threshold. A control, in which the experiment is broken or corrected, must get
          the opposite verdict from the same rule.
        </p>
      </header>
      <Summary {...{ ledger, choices, change }} />
      <Overview {...{ ledger, choices, change }} />
      <div class="filters" role="search">
        <label class="quiet" for="search">
          Search statements and reasons
        </label>
        <input
          id="search"
          ref={search}
          type="search"
          placeholder="Search  /"
          value={choices.search}
          onInput={(event) => change({ search: event.currentTarget.value })}
        />
        <span class="dim" role="status">
          {shown.length === ledger.claims.length
            ? `${shown.length} ${shown.length === 1 ? 'claim' : 'claims'}`
            : `${shown.length} of ${ledger.claims.length} claims`}
        </span>
        {filtered(choices) && (
          <button
            type="button"
            class="plainly"
            onClick={() => change({ topic: '', outcomes: [], doubtful: false, search: '' })}
          >
            Show all
          </button>
        )}
        <span class="last" />
        <DownloadButtons
          name="claims"
          what="these claims"
          look="plainly"
          files={[['CSV', () => csvFile(toCsv(spellSpecialNumbers(claimsTable(shown, ledger.topics)), 5000))]]}
        />
        <button
          type="button"
          class="plainly"
          disabled={!shown.length}
          onClick={() => change({ open: allOpen ? [] : shown.map((each) => each.id) })}
        >
          {allOpen ? 'Close all' : 'Open all'}
        </button>
      </div>
      <ClaimTable {...{ ledger, shown, choices, change }} />
      <footer class="dim small">
        {ledger.size && `Size ${plainText(ledger.size)}, seed ${ledger.seed}; `}
        {ledger.versions.map(([name, version]) => `${plainText(name)} ${plainText(version)}`).join(', ')}
        {ledger.versions.length > 0 && '. '}
        Intervals are 95%.
      </footer>
    </div>
  );
}

function filtered({ topic, outcomes, doubtful, search }: Choices): boolean {
  return Boolean(topic || outcomes.length || doubtful || search);
}

interface SummaryProps {
  ledger: Ledger;
  choices: Choices;
  change: (some: Partial<Choices>) => void;
}

const WORDS: Record<Outcome, string> = {
  holds: 'hold',
  'holds only when': 'hold only when …',
  refuted: 'refuted',
  undecided: 'undecided',
  'not run': 'not run',
  failed: 'failed',
};

// Counts of verdicts, which also filter.
function Summary({ ledger, choices, change }: SummaryProps) {
  const toggle = (outcome: Outcome): void => {
    const on = choices.outcomes.includes(outcome);
    const next = OUTCOMES.filter((each) => (each === outcome) !== choices.outcomes.includes(each));
    change({ outcomes: on ? choices.outcomes.filter((each) => each !== outcome) : next });
  };
  const doubtful = ledger.claims.filter((each) => each.trusted === false).length;
  return (
    <div class="counts" role="group" aria-label="Verdicts; choose which to show">
      {OUTCOMES.map((outcome) => {
        const count = ledger.claims.filter((each) => each.outcome === outcome).length;
        return (
          count > 0 && (
            <button
              key={outcome}
              type="button"
              class="count"
              data-outcome={outcome}
              aria-pressed={choices.outcomes.includes(outcome)}
              onClick={() => toggle(outcome)}
            >
              <span class="much">{count}</span>
              <span>
                <span class="sign" aria-hidden="true">
                  {SIGNS[outcome]}
                </span>{' '}
                {count === 1 && outcome === 'holds' ? 'holds' : WORDS[outcome]}
              </span>
            </button>
          )
        );
      })}
      {doubtful > 0 && (
        <button
          type="button"
          class="count"
          data-outcome="failed"
          aria-pressed={choices.doubtful}
          onClick={() => change({ doubtful: !choices.doubtful })}
        >
          <span class="much">{doubtful}</span>
          <span>control agrees: doubtful</span>
        </button>
      )}
    </div>
  );
}
