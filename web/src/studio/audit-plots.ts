// Turns the JSON of an audit into tiles and figures.

import { readOptionalNumber, isRecord, readList, readNumber, readText, type Bar, type Plot } from '../report/plot-data';
import { readFinite, readRecords } from './api-helpers';
import { formatPercent } from './format';

type Raw = Record<string, unknown>;

export interface Tile {
  name: string;
  value: string;
  note: string;
}

export interface AuditFigure {
  title: string;
  note: string;
  plot: Plot;
}

export interface AuditContent {
  tiles: Tile[];
  figures: AuditFigure[];
  mistakes: { question: string; answer: string; gold: string; confidence: number }[];
}

const MAX_ROWS = 12;

export function readAudit(raw: unknown): AuditContent {
  const audit = isRecord(raw) ? raw : {};
  const figures = [calibration, coverage, verdicts, frequentAnswers, nameGroups].flatMap((make) => make(audit));
  return { tiles: auditTiles(audit), figures, mistakes: confidentMistakes(audit) };
}

// Inserts a tab after the first question mark of each line without a tab, which is hard to type.
export function separateAnswers(pairs: string): string {
  const lines = pairs.split(/\r?\n/);
  return lines.map((line) => (line.includes('\t') ? line : line.replace(/\?\s+/, '?\t'))).join('\n');
}

function auditTiles(audit: Raw): Tile[] {
  const fraction = (name: string, value: unknown, note: string): Tile[] => {
    const number = readFinite(value);
    return number === null ? [] : [{ name, value: formatPercent(number), note }];
  };
  const [low, high] = readList(audit.interval).map(readFinite);
  const baseline = isRecord(audit.baseline) ? audit.baseline : {};
  const madeUp = isRecord(audit.made_up) ? audit.made_up : {};
  const offTopic = isRecord(audit.off_topic) ? audit.off_topic : {};
  const known = isRecord(audit.verdicts) && isRecord(audit.verdicts.known) ? audit.verdicts.known : {};
  const area = readFinite(audit.roc_area);
  return [
    { name: 'Questions', value: (readFinite(audit.pairs) ?? 0).toLocaleString('en'), note: readText(audit.asked) },
    ...fraction('Right', audit.accuracy, low == null ? '' : `${formatPercent(low)} to ${formatPercent(high)}`),
    ...fraction('Always the same answer', baseline.accuracy, readText(baseline.answer)),
    ...fraction('Right if “known”', known.accuracy, `${readFinite(known.count) ?? 0} answers`),
    ...(area === null
      ? []
      : [{ name: 'Ranking', value: area.toFixed(2), note: 'area under ROC, 0.5 is chance' }]),
    ...fraction('Calibration error', audit.ece, 'confidence against accuracy'),
    ...(readFinite(madeUp.count) ? fraction('Made-up “known”', madeUp.known_share, '0% is best') : []),
    ...(readFinite(offTopic.count) ? fraction('Off-topic “known”', offTopic.known_share, '0% is best') : []),
  ];
}

const point = (x: number, y: number) => ({ x, y, low: null, high: null });
const axes = { kind: 'lines', xLog: false, yLog: false } as const;

function calibration({ reliability }: Raw): AuditFigure[] {
  const bins = readRecords(reliability);
  if (!bins.length) return [];
  const points = bins.map((bin) => point(readNumber(bin.confidence), readNumber(bin.accuracy)));
  const series = [
    { name: 'its answers', points },
    { name: 'perfect calibration', points: [point(0, 0), point(1, 1)] },
  ];
  const plot: Plot = { ...axes, x: 'confidence', y: 'fraction of right answers', series, marks: [] };
  const note = 'Below the diagonal it is overconfident, above it underconfident.';
  return [{ title: 'Does it know when it knows?', note, plot }];
}

function coverage({ risk_coverage: curve, precision95 }: Raw): AuditFigure[] {
  const points = readList(curve).map((pair) => {
    const [, answered, right] = readList(pair);
    return point(readNumber(answered), readNumber(right));
  });
  if (!points.length) return [];
  const best = isRecord(precision95) ? precision95 : null;
  const marks = best
    ? [{ label: '95 of 100 right', x: readOptionalNumber(best.coverage), y: readOptionalNumber(best.precision) }]
    : [];
  const x = 'fraction of questions answered';
  const series = [{ name: 'most confident first', points }];
  const plot: Plot = { ...axes, x, y: 'fraction of these right', series, marks };
  const note = 'From left to right, the model answers more questions.';
  return [{ title: 'How many answers can be trusted?', note, plot }];
}

function verdicts({ verdicts: all }: Raw): AuditFigure[] {
  if (!isRecord(all)) return [];
  const values = ['known', 'unsure', 'guess', 'not in what I read'].flatMap((name): Bar[] => {
    const audit = all[name];
    if (!isRecord(audit) || readFinite(audit.accuracy) === null) return [];
    const count = readFinite(audit.count) ?? 0;
    return [{ name: `${name} (${count})`, value: readNumber(audit.accuracy), low: null, high: null }];
  });
  if (!values.length) return [];
  const plot: Plot = { kind: 'bars', y: 'fraction of right answers', values, marks: [], literal: true };
  return [{ title: 'What a verdict is worth', note: 'In brackets: how many answers.', plot }];
}

function frequentAnswers({ histogram }: Raw): AuditFigure[] {
  const values = readList(histogram)
    .slice(0, MAX_ROWS)
    .map((pair): Bar => {
      const [name, count] = readList(pair);
      return { name: readText(name) || '(nothing)', value: readNumber(count), low: null, high: null };
    });
  if (!values.length) return [];
  const plot: Plot = { kind: 'bars', y: 'answers', values, marks: [], literal: true };
  const note = 'A model that guesses repeats a few answers.';
  return [{ title: 'What it answers most', note, plot }];
}

function nameGroups({ origins: groups, accuracy }: Raw): AuditFigure[] {
  const values = readRecords(groups).map((group): Bar => {
    const [low, high] = readList(group.interval);
    const name = readList(group.examples).map(readText).slice(0, 2).join(', ') || readText(group.label);
    return { name, value: readNumber(group.accuracy), low: readOptionalNumber(low), high: readOptionalNumber(high) };
  });
  if (!values.length) return [];
  const overall = readFinite(accuracy);
  const marks = overall === null ? [] : [{ label: 'all', x: null, y: overall }];
  const plot: Plot = { kind: 'bars', y: 'fraction of right answers', values, marks, literal: true };
  const note = 'Groups of names with similar spelling, each shown by two names.';
  return [{ title: 'Which names it knows', note, plot }];
}

// Only answers that were called known.
function confidentMistakes({ answers }: Raw): AuditContent['mistakes'] {
  return readRecords(answers)
    .filter((answer) => answer.correct === false && answer.verdict === 'known')
    .map((answer) => ({
      question: readText(answer.question),
      answer: readText(answer.answer),
      gold: readText(answer.gold),
      confidence: readNumber(answer.confidence),
    }))
    .sort((one, other) => other.confidence - one.confidence)
    .slice(0, MAX_ROWS);
}
