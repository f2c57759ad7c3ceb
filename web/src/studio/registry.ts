// Results of claims, and the claims that have none.

import { text } from '../report/plot';
import { FORMAT, readLedger, type Ledger } from '../report/claims/ledger';
import type { ClaimsResponse } from './api-types';
import { records } from './reading';

// One ledger of all that is known: what was not run stands there as such.
export function mergedLedger({ ledger, registry, topics }: ClaimsResponse): Ledger {
  const results = new Map(records(ledger?.claims).map((claim) => [text(claim.id), claim]));
  const known = new Set(registry.map((claim) => text(claim.id)));
  const claims = registry.map(
    (claim) => results.get(text(claim.id)) ?? { ...claim, outcome: 'not run', condition: '' },
  );
  const others = [...results].filter(([id]) => !known.has(id)).map(([, claim]) => claim);
  const named = { ...FORMAT, ...ledger, topics };
  return readLedger({ ...named, claims: [...claims, ...others] });
}

// For the playground: what each claim says.
export function statementsOf(claims: ClaimsResponse): Map<string, string> {
  return new Map(mergedLedger(claims).claims.map(({ id, statement }) => [id, statement]));
}
