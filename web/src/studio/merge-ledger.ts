// Merges the results of claims with the list of all claims.

import { readText } from '../report/plot-data';
import { FORMAT, readLedger, type Ledger } from '../report/claims/ledger';
import type { ClaimsResponse } from './api-types';
import { readRecords } from './api-helpers';

// One ledger with all claims; those without a result are "not run".
export function mergeLedger({ ledger, registry, topics }: ClaimsResponse): Ledger {
  const results = new Map(readRecords(ledger?.claims).map((claim) => [readText(claim.id), claim]));
  const ids = new Set(registry.map((claim) => readText(claim.id)));
  const claims = registry.map(
    (claim) => results.get(readText(claim.id)) ?? { ...claim, outcome: 'not run', condition: '' },
  );
  const others = [...results].filter(([id]) => !ids.has(id)).map(([, claim]) => claim);
  const header = { ...FORMAT, ...ledger, topics };
  return readLedger({ ...header, claims: [...claims, ...others] });
}

// The statement of each claim by id, for the playground.
export function claimStatements(claims: ClaimsResponse): Map<string, string> {
  return new Map(mergeLedger(claims).claims.map(({ id, statement }) => [id, statement]));
}
