// Merges the results of claims with the list of all claims.

import { text } from '../report/plot';
import { FORMAT, readLedger, type Ledger } from '../report/claims/ledger';
import type { ClaimsResponse } from './api-types';
import { readRecords } from './api-helpers';

// One ledger with all claims; those without a result are "not run".
export function mergeLedger({ ledger, registry, topics }: ClaimsResponse): Ledger {
  const results = new Map(readRecords(ledger?.claims).map((claim) => [text(claim.id), claim]));
  const ids = new Set(registry.map((claim) => text(claim.id)));
  const claims = registry.map(
    (claim) => results.get(text(claim.id)) ?? { ...claim, outcome: 'not run', condition: '' },
  );
  const others = [...results].filter(([id]) => !ids.has(id)).map(([, claim]) => claim);
  const header = { ...FORMAT, ...ledger, topics };
  return readLedger({ ...header, claims: [...claims, ...others] });
}

// The statement of each claim by id, for the playground.
export function claimStatements(claims: ClaimsResponse): Map<string, string> {
  return new Map(mergeLedger(claims).claims.map(({ id, statement }) => [id, statement]));
}
