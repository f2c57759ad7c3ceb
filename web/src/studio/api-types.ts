// Made by `npm run api` from the models in attnlab/studio/_requests.py and responses.py. Do not edit.

export interface Api {
  'GET /api/info': {
    response: InfoResponse;
  };
  'GET /api/runs': {
    response: RunsResponse;
  };
  'GET /api/run': {
    query: {
      /**
       * the id of a run: its folder below --runs
       */
      run: string;
    };
    response: RunResponse;
  };
  'GET /api/metrics': {
    query: {
      /**
       * the id of a run: its folder below --runs
       */
      run: string;
      /**
       * Lines that are known: a number, or a mark.
       */
      after?: string;
    };
    response: MetricsResponse;
  };
  'GET /api/diff': {
    query: {
      /**
       * Items: the id of a run: its folder below --runs
       */
      run: string[];
    };
    response: DiffResponse;
  };
  'GET /api/events': {
    query?: {
      /**
       * Items: RUN:N, a run and the lines known of it
       */
      run?: string[];
    };
    events: {
      runs: RunsEvent;
      metrics: MetricsResponse;
    };
  };
  'POST /api/ask': {
    body: AskRequest;
    response: AskResponse;
  };
  'POST /api/write': {
    body: WriteRequest;
    events: {
      cut: CutEvent;
      token: TextEvent;
      draft: TextEvent;
      summary: SummaryEvent;
      error: ErrorResponse;
      done: DoneEvent;
    };
  };
  'POST /api/see': {
    query: {
      /**
       * the id of a run: its folder below --runs
       */
      run: string;
    };
    response: SeeResponse;
  };
  'POST /api/look': {
    body: LookRequest;
    response: LookResponse;
  };
  'POST /api/look/image': {
    query?: {
      run?: string | null;
      model?: string | null;
      compare_run?: string | null;
      compare_model?: string | null;
      /**
       * Compare with the same model, untrained.
       */
      untrained?: boolean;
      /**
       * Queries, keys and values too.
       */
      neurons?: boolean;
    };
    response: LookResponse;
  };
  'GET /api/captures/{id}': {
    path: {
      id: string;
    };
  };
  'GET /api/audit': {
    query: {
      /**
       * the id of a run: its folder below --runs
       */
      run: string;
    };
    response: ReportResponse;
  };
  'POST /api/audit': {
    body: AuditRequest;
    response: JobStartedResponse;
  };
  'GET /api/claims': {
    response: ClaimsResponse;
  };
  'POST /api/claims': {
    body: ClaimsRequest;
    response: JobStartedResponse;
  };
  'GET /api/bench': {
    query?: {
      /**
       * One of the list.
       */
      file?: string | null;
    };
    response: BenchFilesResponse | ReportResponse;
  };
  'POST /api/bench': {
    body: BenchRequest;
    response: JobStartedResponse;
  };
  'GET /api/jobs': {
    response: JobsResponse;
  };
  'GET /api/jobs/{id}': {
    path: {
      id: string;
    };
    response: JobResponse;
  };
  'DELETE /api/jobs/{id}': {
    path: {
      id: string;
    };
    response: JobResponse;
  };
  'GET /api/jobs/{id}/events': {
    path: {
      id: string;
    };
    events: {
      job: JobResponse;
    };
  };
}
export interface InfoResponse {
  version: string;
  runs_folder: string;
  models: ModelEntry[];
  tasks: Task[];
  limits: Limits;
}
export interface ModelEntry {
  id: string;
  name: string;
}
export interface Task {
  name: string;
  help: string;
  headline: string;
  better: 'higher' | 'lower';
  /**
   * What its runs can do.
   */
  can: string[];
  example: TaskExample | null;
}
/**
 * A command that trains a first run.
 */
export interface TaskExample {
  sentence: string;
  command: string;
  folder: string;
}
/**
 * What one request may ask for.
 */
export interface Limits {
  text: number;
  image_bytes: number;
  questions: number;
  question: number;
  summaries: number;
  beams: number;
  pairs: number;
  tokens: number;
  runs: number;
  rows: number;
}
export interface RunsResponse {
  runs: Run[];
}
export interface Run {
  id: string;
  name: string;
  task: string | null;
  state: 'training' | 'finished' | 'stopped' | 'broken';
  /**
   * What is wrong with a broken one.
   */
  problem: string | null;
  /**
   * Seconds since 1970.
   */
  created: number | null;
  updated: number | null;
  step: number;
  steps: number | null;
  /**
   * It trains so long, whatever its steps.
   */
  minutes: number | null;
  parameters: number | null;
  attention: string | null;
  /**
   * The metric that counts.
   */
  headline: string | null;
  better: ('higher' | 'lower') | null;
  /**
   * The newest value of each metric.
   */
  last: {
    [k: string]: number | 'nan' | 'inf' | '-inf';
  };
  /**
   * What can be done with its model.
   */
  can: string[];
}
export interface RunResponse {
  id: string;
  name: string;
  task: string | null;
  state: 'training' | 'finished' | 'stopped' | 'broken';
  /**
   * What is wrong with a broken one.
   */
  problem: string | null;
  /**
   * Seconds since 1970.
   */
  created: number | null;
  updated: number | null;
  step: number;
  steps: number | null;
  /**
   * It trains so long, whatever its steps.
   */
  minutes: number | null;
  parameters: number | null;
  attention: string | null;
  /**
   * The metric that counts.
   */
  headline: string | null;
  better: ('higher' | 'lower') | null;
  /**
   * The newest value of each metric.
   */
  last: {
    [k: string]: number | 'nan' | 'inf' | '-inf';
  };
  /**
   * What can be done with its model.
   */
  can: string[];
  config: {
    [k: string]: unknown;
  };
  /**
   * Each by its path, as training.learning_rate.
   */
  settings: {
    [k: string]: unknown;
  };
  files: RunFile[];
  checkpoints: Checkpoint[];
  audited: boolean;
  /**
   * Questions that one can try.
   */
  examples: string[];
}
export interface RunFile {
  name: string;
  bytes: number;
  time: number;
}
export interface Checkpoint {
  name: string;
  step: number | null;
  bytes: number;
  time: number | null;
}
/**
 * Rows of metrics, also the event `metrics`.
 */
export interface MetricsResponse {
  run: string;
  /**
   * Lines before these.
   */
  after: number;
  rows: {
    [k: string]: unknown;
  }[];
  /**
   * Lines with these.
   */
  next: number;
  /**
   * `next` with a checksum of the lines: so the server sees that a file was replaced.
   */
  mark: string;
  total: number;
  /**
   * The file was cut or replaced: what was read before does not count.
   */
  again: boolean;
}
export interface DiffResponse {
  rows: DiffRow[];
  same: number;
}
export interface DiffRow {
  setting: string;
  values: unknown[];
}
/**
 * Runs that changed, and ids of those that are gone.
 */
export interface RunsEvent {
  runs: Run[];
  gone: string[];
}
export interface AskRequest {
  /**
   * the id of a run: its folder below --runs
   */
  run: string;
  questions: string[];
}
export interface AskResponse {
  answers: Answer[];
  threshold: Thresholds;
}
export interface Answer {
  question: string;
  answer: string;
  probability: number;
  margin: number;
  verdict: 'known' | 'unsure' | 'guess';
  seen: boolean;
  alternatives: Alternative[];
  /**
   * Names of its training that resemble the one asked about, and how much.
   */
  nearest: [string, number][];
  /**
   * Whom it asks about.
   */
  name: string | null;
  /**
   * False: no question of its training names that one.
   */
  trained: boolean | null;
  /**
   * Tokens that it can write behind the question.
   */
  room: number;
}
export interface Alternative {
  answer: string;
  probability: number;
}
export interface Thresholds {
  known: number | null;
  guess: number;
  fitted_on: string;
}
export interface WriteRequest {
  /**
   * the id of a run: its folder below --runs
   */
  run: string;
  /**
   * To summarize, or to continue.
   */
  text: string;
  /**
   * How many different ones.
   */
  count?: number;
  /**
   * 0: the likeliest token.
   */
  temperature?: number;
  /**
   * Sample from the k likeliest tokens.
   */
  top_k?: number | null;
  /**
   * Sample from the likeliest tokens that have probability p together.
   */
  top_p?: number | null;
  /**
   * Beam search of this width.
   */
  beams?: number | null;
  seed?: number;
  /**
   * No n tokens in a row twice; 0 disables it.
   */
  block?: number | null;
}
/**
 * The model reads the beginning of the text alone.
 */
export interface CutEvent {
  read: number;
  cut: number;
  /**
   * The character after the last that is read.
   */
  at: number | null;
}
/**
 * The next piece of a text (`token`), or all of it as it is now (`draft`).
 */
export interface TextEvent {
  summary: number;
  text: string;
}
/**
 * A text that is finished.
 */
export interface SummaryEvent {
  summary: number;
  text: string;
  log_probability: number;
  finished: boolean;
  words: Word[];
}
export interface Word {
  text: string;
  sources: Source[];
  copied: number | null;
}
/**
 * Where in the text a word came from: characters as JavaScript counts them.
 */
export interface Source {
  start: number;
  end: number;
  weight: number;
}
/**
 * Of every refusal, and the event `error` of a stream.
 */
export interface ErrorResponse {
  error: string;
}
export interface DoneEvent {}
export interface SeeResponse {
  label: string;
  probabilities: LabelProbability[];
  capture: string | null;
}
export interface LabelProbability {
  label: string;
  probability: number;
}
export interface LookRequest {
  subject: string | ModelSubject;
  text: string;
  /**
   * A second text.
   */
  second?: string | null;
  /**
   * Tokens to generate first.
   */
  generate?: number;
  compare?: (string | ModelSubject) | null;
  /**
   * Read by the same model.
   */
  compare_text?: string | null;
  /**
   * Compare with the same model, untrained.
   */
  untrained?: boolean;
  /**
   * Queries, keys and values too.
   */
  neurons?: boolean;
}
export interface ModelSubject {
  /**
   * the id of a model given at start
   */
  model: string;
}
export interface LookResponse {
  capture: string;
  title: string;
}
/**
 * A file of results: an audit, or a bench as `attnlab bench --json` writes it.
 */
export interface ReportResponse {
  [k: string]: unknown;
}
export interface AuditRequest {
  /**
   * the id of a run: its folder below --runs
   */
  run: string;
  /**
   * Lines of question, tab, answer to audit with.
   */
  pairs?: string | null;
}
export interface JobStartedResponse {
  /**
   * Its id.
   */
  job: string;
}
export interface ClaimsResponse {
  /**
   * The newest result of each claim, in the format of `attnlab claims --json`.
   */
  ledger: {
    [k: string]: unknown;
  } | null;
  registry: {
    [k: string]: unknown;
  }[];
  topics: {
    [k: string]: string;
  };
}
export interface ClaimsRequest {
  /**
   * Items: the name of a claim
   */
  ids: string[];
  size?: 'small' | 'full';
}
export interface BenchFilesResponse {
  files: BenchFile[];
}
export interface BenchFile {
  file: string;
  time: number;
  sections: string[];
}
export interface BenchRequest {
  part: 'error' | 'speed' | 'memory' | 'decode';
  /**
   * Small sizes: seconds, not minutes.
   */
  quick?: boolean;
}
export interface JobsResponse {
  jobs: JobResponse[];
}
/**
 * A job, also the event `job`.
 */
export interface JobResponse {
  id: string;
  kind: string;
  /**
   * The run that it is of, if any.
   */
  about: string;
  state: 'waiting' | 'running' | 'done' | 'failed' | 'cancelled';
  done: number;
  of: number;
  message: string;
  result: JobResult | null;
}
export interface JobResult {
  /**
   * The bench that it measured.
   */
  file: string | null;
}
