// The ledger that a page carries, as attnlab/claims/_ledger.py writes it.

import type { Table } from '../../shared/table';
import { short } from '../numbers';
import { isRecord, list, readEstimate, readNumber, readPlot, text } from '../plot';
import type { Estimate, Plot } from '../plot';

export const OUTCOMES = [
  'holds',
  'holds only when',
  'refuted',
  'undecided',
  'not run',
  'failed',
] as const;
export type Outcome = (typeof OUTCOMES)[number];

// Told apart without colors too.
export const SIGNS: Record<Outcome, string> = {
  holds: '✓',
  'holds only when': '◐',
  refuted: '✗',
  undecided: '?',
  'not run': '–',
  failed: '!',
};

export interface Judged {
  outcome: Outcome | null;
  condition: string;
  figure: Estimate | null;
  plot: Plot | null;
  details: [string, string][];
}

export interface Claim extends Judged {
  id: string;
  topic: string;
  source: string;
  statement: string;
  quoted: boolean;
  why: string;
  reference: string;
  measured: string;
  threshold: string;
  control: Judged & { what: string };
  trusted: boolean | null;
  seconds: number;
  size: string; // as it was run
  seed: number;
}

export interface Ledger {
  seed: number; // of all claims
  size: string; // of all claims; empty: each has its own
  versions: [string, string][];
  topics: { id: string; name: string; number: number }[];
  claims: Claim[];
}

export const FORMAT = { format: 'attnlab-claims', version: 2 }; // as attnlab/claims/_ledger.py says

export function readLedger(raw: unknown): Ledger {
  if (!isRecord(raw) || raw.format !== FORMAT.format)
    throw new Error('The data of this page is no ledger of claims.');
  if (raw.version !== FORMAT.version)
    throw new Error(
      `The ledger has version ${String(raw.version)}; this page reads version ${FORMAT.version}.`,
    );
  const given = { size: raw.size, seed: raw.seed };
  const claims = list(raw.claims)
    .filter(isRecord)
    .map((claim) => readClaim({ ...given, ...claim }));
  const used = new Set(claims.map((each) => each.topic));
  const topics = Object.entries(isRecord(raw.topics) ? raw.topics : {}).map(([id, name], i) => ({
    id,
    name: text(name),
    number: i + 1,
  }));
  return {
    seed: readNumber(raw.seed),
    size: text(raw.size),
    versions: Object.entries(isRecord(raw.versions) ? raw.versions : {}).map(([name, version]) => [
      name,
      text(version),
    ]),
    topics: topics.filter(({ id }) => used.has(id)),
    claims,
  };
}

function readClaim(raw: Record<string, unknown>): Claim {
  const control = isRecord(raw.control) ? raw.control : {};
  return {
    id: text(raw.id),
    topic: text(raw.topic),
    source: text(raw.source),
    statement: text(raw.statement),
    quoted: raw.quoted === true,
    why: text(raw.why),
    reference: text(raw.reference),
    measured: text(raw.measured),
    threshold: text(raw.threshold),
    ...readJudged(raw),
    control: { what: text(control.what), ...readJudged(control) },
    trusted: typeof raw.trusted === 'boolean' ? raw.trusted : null,
    seconds: readNumber(raw.seconds),
    size: text(raw.size),
    seed: readNumber(raw.seed),
  };
}

function readJudged(raw: Record<string, unknown>): Judged {
  const details = isRecord(raw.details) ? raw.details : {};
  return {
    outcome: OUTCOMES.find((each) => each === raw.outcome) ?? null,
    condition: text(raw.condition),
    figure: isRecord(raw.figure) ? readEstimate(raw.figure) : null,
    plot: readPlot(raw.plot),
    details: Object.entries(details).map(([name, value]) => [
      name,
      typeof value === 'number' ? short(value) : String(value),
    ]),
  };
}

// "holds only when d is at least 64", "not run: needs ..."
export function told({ outcome, condition }: Judged): string {
  if (outcome === null) return 'not judged';
  if (!condition) return outcome;
  return `${outcome}${outcome === 'holds only when' ? ' ' : ': '}${condition}`;
}

export function interval({ low, high }: Estimate): string {
  return low === null || high === null ? '' : `${short(low)} to ${short(high)}`;
}

// What the control says of the verdict; the judge must not say the same of both.
export function controlTold({ control, trusted }: Claim): string {
  if (control.outcome === null) return '';
  return trusted === false ? `${told(control)}: the same judge should disagree` : told(control);
}

const JUDGED = ['verdict', 'condition', 'figure', 'from', 'to'];

// For a spreadsheet: a row for each claim.
export function tableOf(claims: Claim[], topics: Ledger['topics']): Table {
  const topic = new Map(topics.map(({ id, name }) => [id, name]));
  const judged = ({ outcome, condition, figure }: Judged): (string | number)[] => [
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
