// The statements of the claims by id, as attnlab/claims/_ledger_page.py writes them.

import { isRecord, readText } from '../report/plot-data';

export type Statements = Map<string, string>;

export function readStatements(raw: unknown): Statements {
  const statements = isRecord(raw) && isRecord(raw.statements) ? raw.statements : {};
  return new Map(Object.entries(statements).map(([id, statement]) => [id, readText(statement)]));
}
