// Results of claims, and the claims that have none.

import { isRecord, text } from '../report/plot';
import { FORMAT, readLedger, type Ledger } from '../report/claims/ledger';
import { records } from './reading';

// One ledger of all that is known: what was not run stands there as such.
export function mergedLedger(raw: unknown): Ledger {
  const found = isRecord(raw) ? raw : {};
  const given = isRecord(found.ledger) ? found.ledger : {};
  const results = new Map(records(given.claims).map((claim) => [text(claim.id), claim]));
  const registry = records(found.registry);
  const known = new Set(registry.map((claim) => text(claim.id)));
  const claims = registry.map(
    (claim) => results.get(text(claim.id)) ?? { ...claim, outcome: 'not run', condition: '' },
  );
  const others = [...results].filter(([id]) => !known.has(id)).map(([, claim]) => claim);
  const topics = isRecord(found.topics) ? found.topics : given.topics;
  const named = { ...FORMAT, ...given, topics };
  return readLedger({ ...named, claims: [...claims, ...others] });
}

// For the playground: what each claim says.
export function statementsOf(raw: unknown): Map<string, string> {
  const { claims } = mergedLedger(raw);
  return new Map(claims.map(({ id, statement }) => [id, statement]));
}
