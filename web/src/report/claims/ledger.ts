// Reads the ledger of claims that attnlab/claims/_ledger.py writes.

import type { Table } from '../../shared/table-type';
import { formatShort } from '../number-format';
import { isRecord, readList, readEstimate, readNumber, readPlot, readText } from '../plot-data';
import type { Estimate, Plot } from '../plot-data';

export const OUTCOMES = [
  'holds',
  'holds only when',
  'refuted',
  'undecided',
  'not run',
  'failed',
] as const;
export type Outcome = (typeof OUTCOMES)[number];

// Signs that distinguish verdicts without colors.
export const SIGNS: Record<Outcome, string> = {
  holds: '✓',
  'holds only when': '◐',
  refuted: '✗',
  undecided: '?',
  'not run': '–',
  failed: '!',
};

export interface JudgedResult {
  outcome: Outcome | null;
  condition: string;
  figure: Estimate | null;
  plot: Plot | null;
  details: [string, string][];
}

export interface Claim extends JudgedResult {
  id: string;
  topic: string;
  source: string;
  statement: string;
  quoted: boolean;
  why: string;
  reference: string;
  measured: string;
  threshold: string;
  control: JudgedResult & { what: string };
  trusted: boolean | null;
  seconds: number;
  size: string; // as it was run
  seed: number;
}

export interface Ledger {
  seed: number; // of all claims
  size: string; // of all claims; empty if each claim has its own
  versions: [string, string][];
  topics: { id: string; name: string; number: number }[];
  claims: Claim[];
}

export const FORMAT = { format: 'attnlab-claims', version: 2 }; // as attnlab/claims/_ledger.py says

export function readLedger(raw: unknown): Ledger {
  if (!isRecord(raw) || raw.format !== FORMAT.format)
    throw new Error('The data of this page is not a ledger of claims.');
  if (raw.version !== FORMAT.version)
    throw new Error(
      `The ledger has version ${String(raw.version)}; this page reads version ${FORMAT.version}.`,
    );
  const shared = { size: raw.size, seed: raw.seed };
  const claims = readList(raw.claims)
    .filter(isRecord)
    .map((claim) => readClaim({ ...shared, ...claim }));
  const used = new Set(claims.map(({ topic }) => topic));
  const topics = Object.entries(isRecord(raw.topics) ? raw.topics : {}).map(([id, name], i) => ({
    id,
    name: readText(name),
    number: i + 1,
  }));
  return {
    seed: readNumber(raw.seed),
    size: readText(raw.size),
    versions: Object.entries(isRecord(raw.versions) ? raw.versions : {}).map(([name, version]) => [
      name,
      readText(version),
    ]),
    topics: topics.filter(({ id }) => used.has(id)),
    claims,
  };
}

function readClaim(raw: Record<string, unknown>): Claim {
  const control = isRecord(raw.control) ? raw.control : {};
  return {
    id: readText(raw.id),
    topic: readText(raw.topic),
    source: readText(raw.source),
    statement: readText(raw.statement),
    quoted: raw.quoted === true,
    why: readText(raw.why),
    reference: readText(raw.reference),
    measured: readText(raw.measured),
    threshold: readText(raw.threshold),
    ...readJudged(raw),
    control: { what: readText(control.what), ...readJudged(control) },
    trusted: typeof raw.trusted === 'boolean' ? raw.trusted : null,
    seconds: readNumber(raw.seconds),
    size: readText(raw.size),
    seed: readNumber(raw.seed),
  };
}

function readJudged(raw: Record<string, unknown>): JudgedResult {
  const details = isRecord(raw.details) ? raw.details : {};
  return {
    outcome: OUTCOMES.find((each) => each === raw.outcome) ?? null,
    condition: readText(raw.condition),
    figure: isRecord(raw.figure) ? readEstimate(raw.figure) : null,
    plot: readPlot(raw.plot),
    details: Object.entries(details).map(([name, value]) => [
      name,
      typeof value === 'number' ? formatShort(value) : String(value),
    ]),
  };
}

// "holds only when d is at least 64", "not run: needs ..."
export function formatVerdict({ outcome, condition }: JudgedResult): string {
  if (outcome === null) return 'not judged';
  if (!condition) return outcome;
  return `${outcome}${outcome === 'holds only when' ? ' ' : ': '}${condition}`;
}

export function formatInterval({ low, high }: Estimate): string {
  return low === null || high === null ? '' : `${formatShort(low)} to ${formatShort(high)}`;
}

// The verdict of the control, which must differ from the verdict of the claim.
export function formatControlVerdict({ control, trusted }: Claim): string {
  if (control.outcome === null) return '';
  return trusted === false ? `${formatVerdict(control)}: the same judge should disagree` : formatVerdict(control);
}

const JUDGED = ['verdict', 'condition', 'figure', 'from', 'to'];

// A table for a spreadsheet, one row per claim.
export function claimsTable(claims: Claim[], topics: Ledger['topics']): Table {
  const topic = new Map(topics.map(({ id, name }) => [id, name]));
  const judged = ({ outcome, condition, figure }: JudgedResult): (string | number)[] => [
    outcome ?? '',
    condition,
    figure?.value ?? '',
    figure?.low ?? '',
    figure?.high ?? '',
  ];
  return {
    title: 'Claims',
    header: [
      ...['claim', 'topic', 'statement', 'probably wrong', ...JUDGED, 'measured', 'holds if'],
      ...['control', ...JUDGED.map((name) => `control ${name}`), 'trusted'],
      ...['seconds', 'size', 'seed', 'source', 'reference', 'why'],
    ],
    rows: claims.map((claim) => [
      ...[claim.id, topic.get(claim.topic) ?? claim.topic, claim.statement],
      ...[claim.quoted ? 'yes' : 'no', ...judged(claim), claim.measured, claim.threshold],
      ...[claim.control.what, ...judged(claim.control)],
      claim.trusted === null ? '' : claim.trusted ? 'yes' : 'no',
      ...[claim.seconds, claim.size, claim.seed, claim.source, claim.reference, claim.why],
    ]),
  };
}
