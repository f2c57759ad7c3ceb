// One line per topic with one sign per claim; also filters by topic.

import { plainText } from '../text-format';
import type { Choices } from './page-choices';
import { matches } from './page-choices';
import { SIGNS, formatVerdict, type Ledger } from './ledger';

interface Props {
  ledger: Ledger;
  choices: Choices;
  change: (some: Partial<Choices>) => void;
}

export function Overview({ ledger, choices, change }: Props) {
  if (ledger.topics.length < 2) return null;
  const anywhere = { ...choices, topic: '' };
  return (
    <div class="overview" role="group" aria-label="Topics; choose one">
      {ledger.topics.map(({ id, name, number }) => {
        const claims = ledger.claims.filter((each) => each.topic === id);
        const on = choices.topic === id;
        return (
          <button
            key={id}
            type="button"
            aria-pressed={on}
            onClick={() => change({ topic: on ? '' : id })}
          >
            <span class="dim number">{number}</span>
            <span class="name">
              <bdi>{plainText(name)}</bdi>
            </span>
            <span class="signs" aria-label={`${claims.length} claims`}>
              {claims.map((claim) => (
                <i
                  key={claim.id}
                  class={matches(claim, anywhere) ? 'sign' : 'sign faint'}
                  data-outcome={claim.outcome ?? 'not run'}
                  title={`${plainText(claim.id)}: ${plainText(formatVerdict(claim))}`}
                  aria-hidden="true"
                >
                  {SIGNS[claim.outcome ?? 'not run']}
                </i>
              ))}
            </span>
          </button>
        );
      })}
    </div>
  );
}
