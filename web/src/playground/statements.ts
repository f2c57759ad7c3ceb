// What claims say, as attnlab/claims/_ledger_page.py writes it: by id.

import { isRecord, text } from '../report/plot';

export type Statements = Map<string, string>;

export function readStatements(raw: unknown): Statements {
  const all = isRecord(raw) && isRecord(raw.statements) ? raw.statements : {};
  return new Map(Object.entries(all).map(([id, said]) => [id, text(said)]));
}
