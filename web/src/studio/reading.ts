// What the server sends, read with distrust: run folders may come from strangers.

import { end, isRecord, list, readNumber, text } from '../report/plot';

type Raw = Record<string, unknown>;

export const STATES = ['training', 'finished', 'stopped', 'broken'] as const;
export type RunState = (typeof STATES)[number] | 'gone';

export interface Run {
  id: string;
  name: string;
  task: string;
  state: RunState;
  problem: string;
  created: number | null; // seconds since 1970
  updated: number | null;
  step: number | null;
  steps: number | null;
  minutes: number | null; // it trains so long, whatever its steps
  parameters: number | null;
  attention: string;
  last: [string, number][];
  headline: string; // the measure that counts
  can: string[];
}

export interface Info {
  version: string;
  runsFolder: string;
  models: { id: string; name: string }[];
  limits: Record<string, number>;
  tasks: Task[];
}

export interface Task {
  name: string;
  can: string[]; // what its runs can do
  example: { sentence: string; command: string; folder: string } | null; // trains a first run
}

export interface Detail {
  run: Run;
  settings: [string, unknown][];
  files: { name: string; bytes: number | null }[];
  checkpoints: { name: string; step: number | null; bytes: number | null; time: number | null }[];
  examples: string[];
}

export interface DiffRow {
  setting: string;
  values: unknown[];
}

const SENSIBLE = { text: 20000, questions: 20, summaries: 8, tokens: 256, image_bytes: 8e6 };

export function readInfo(raw: unknown): Info {
  const found = isRecord(raw) ? raw : {};
  const limits: Record<string, number> = { ...SENSIBLE };
  for (const [name, value] of Object.entries(isRecord(found.limits) ? found.limits : {}))
    if (typeof value === 'number') limits[name] = value;
  return {
    version: text(found.version),
    runsFolder: text(found.runs_folder),
    models: records(found.models).map((each) => ({ id: text(each.id), name: text(each.name) })),
    limits,
    tasks: records(found.tasks).map(readTask),
  };
}

function readTask(raw: Raw): Task {
  const given = isRecord(raw.example) ? raw.example : null;
  return {
    name: text(raw.name),
    can: list(raw.can).map(text),
    example: given && {
      sentence: text(given.sentence),
      command: text(given.command),
      folder: text(given.folder),
    },
  };
}

export function readRuns(raw: unknown): Run[] {
  return records(isRecord(raw) ? raw.runs : raw).map(readRun);
}

export function readRun(raw: Raw): Run {
  const id = text(raw.id);
  return {
    id,
    name: text(raw.name) || id,
    task: text(raw.task),
    state: STATES.find((each) => each === raw.state) ?? 'broken',
    problem: text(raw.problem),
    created: finite(raw.created),
    updated: finite(raw.updated),
    step: finite(raw.step),
    steps: finite(raw.steps),
    minutes: finite(raw.minutes),
    parameters: finite(raw.parameters),
    attention: text(raw.attention),
    last: Object.entries(isRecord(raw.last) ? raw.last : {})
      .filter(([, value]) => typeof value === 'number' || typeof value === 'string')
      .map(([name, value]) => [name, readNumber(value)]),
    headline: text(raw.headline),
    can: list(raw.can).map(text),
  };
}

export function readDetail(raw: unknown): Detail {
  const found = isRecord(raw) ? raw : {};
  return {
    run: readRun(found),
    settings: Object.entries(isRecord(found.settings) ? found.settings : {}),
    files: records(found.files).map((each) => ({ name: text(each.name), bytes: finite(each.bytes) })),
    checkpoints: records(found.checkpoints).map((each) => ({
      name: text(each.name),
      step: finite(each.step),
      bytes: finite(each.bytes),
      time: finite(each.time),
    })),
    examples: list(found.examples).map(text).filter(Boolean),
  };
}

export function readDiff(raw: unknown): { rows: DiffRow[]; same: number } {
  const found = isRecord(raw) ? raw : {};
  return {
    rows: records(found.rows).map((row) => ({ setting: text(row.setting), values: list(row.values) })),
    same: finite(found.same) ?? 0,
  };
}

export interface Answer {
  question: string;
  answer: string;
  probability: number;
  margin: number;
  verdict: string;
  alternatives: { answer: string; probability: number }[];
  nearest: [string, number | null][];
  name: string; // whom it asks about
  trained: boolean; // false: no question of its training names that one
  room: number; // tokens that it can write behind the question
}

export interface Thresholds {
  known: number | null;
  guess: number | null;
}

export function readAnswers(raw: unknown): { answers: Answer[]; thresholds: Thresholds } {
  const found = isRecord(raw) ? raw : {};
  const limits = isRecord(found.threshold) ? found.threshold : { known: found.threshold };
  return {
    answers: records(found.answers).map((each) => ({
      question: text(each.question),
      answer: text(each.answer),
      probability: readNumber(each.probability),
      margin: readNumber(each.margin),
      verdict: text(each.verdict),
      alternatives: records(each.alternatives).map((other) => ({
        answer: text(other.answer),
        probability: readNumber(other.probability),
      })),
      nearest: list(each.nearest).map(readNear),
      name: text(each.name),
      trained: each.trained !== false,
      room: finite(each.room) ?? Infinity,
    })),
    thresholds: { known: finite(limits.known), guess: finite(limits.guess) },
  };
}

function readNear(raw: unknown): [string, number | null] {
  if (typeof raw === 'string') return [raw, null];
  if (isRecord(raw)) return [text(raw.name), finite(raw.similarity)];
  const [name, likeness] = list(raw);
  return [text(name), finite(likeness)];
}

export interface Seen {
  label: string;
  probabilities: { label: string; probability: number }[];
  capture: string;
}

export function readSeen(raw: unknown): Seen {
  const found = isRecord(raw) ? raw : {};
  return {
    label: text(found.label),
    probabilities: records(found.probabilities).map((each) => ({
      label: text(each.label),
      probability: readNumber(each.probability),
    })),
    capture: text(found.capture),
  };
}

export interface Job {
  id: string;
  kind: string;
  about: string; // the run that it is of
  state: string;
  done: number;
  of: number | null;
  message: string;
  result: Raw;
}

export function readJob(raw: unknown): Job {
  const found = isRecord(raw) ? raw : {};
  return {
    id: text(found.id) || text(found.job),
    kind: text(found.kind),
    about: text(found.about),
    state: text(found.state) || 'waiting',
    done: finite(found.done) ?? 0,
    of: finite(found.of),
    message: text(found.message),
    result: isRecord(found.result) ? found.result : {},
  };
}

export const ended = ({ state }: Job): boolean => !['waiting', 'running'].includes(state);

export function records(raw: unknown): Raw[] {
  return list(raw).filter(isRecord);
}

// A number that is one, else null.
export function finite(raw: unknown): number | null {
  const value = end(raw);
  return value !== null && Number.isFinite(value) ? value : null;
}
