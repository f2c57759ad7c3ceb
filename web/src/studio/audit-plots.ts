// The JSON of an audit as figures.

import { end, isRecord, list, readNumber, text, type Bar, type Plot } from '../report/plot';
import { finite, records } from './reading';
import { percent } from './format';

type Raw = Record<string, unknown>;

export interface Tile {
  name: string;
  value: string;
  note: string;
}

export interface Told {
  title: string;
  note: string;
  plot: Plot;
}

export interface AuditPage {
  tiles: Tile[];
  figures: Told[];
  mistakes: { question: string; answer: string; gold: string; confidence: number }[];
}

const SHOWN = 12;

export function readAudit(raw: unknown): AuditPage {
  const found = isRecord(raw) ? raw : {};
  const figures = [calibration, coverage, verdicts, places, origins].flatMap((make) => make(found));
  return { tiles: tilesOf(found), figures, mistakes: mistakesOf(found) };
}

// A tab is hard to type: where a line has none, the answer begins behind the first question mark.
export function tabbed(pairs: string): string {
  const lines = pairs.split(/\r?\n/);
  return lines.map((line) => (line.includes('\t') ? line : line.replace(/\?\s+/, '?\t'))).join('\n');
}

function tilesOf(found: Raw): Tile[] {
  const share = (name: string, value: unknown, note: string): Tile[] => {
    const number = finite(value);
    return number === null ? [] : [{ name, value: percent(number), note }];
  };
  const [low, high] = list(found.interval).map(finite);
  const always = isRecord(found.baseline) ? found.baseline : {};
  const madeUp = isRecord(found.made_up) ? found.made_up : {};
  const said = isRecord(found.verdicts) && isRecord(found.verdicts.known) ? found.verdicts.known : {};
  const area = finite(found.roc_area);
  return [
    { name: 'Questions', value: (finite(found.pairs) ?? 0).toLocaleString('en'), note: text(found.asked) },
    ...share('Right', found.accuracy, low == null ? '' : `${percent(low)} to ${percent(high)}`),
    ...share('Always the same answer', always.accuracy, text(always.answer)),
    ...share('Right if “known”', said.accuracy, `${finite(said.count) ?? 0} answers`),
    ...(area === null
      ? []
      : [{ name: 'Ranking', value: area.toFixed(2), note: 'area under ROC, 0.5 is chance' }]),
    ...share('Calibration error', found.ece, 'confidence against accuracy'),
    ...(finite(madeUp.count) ? share('Made-up “known”', madeUp.known_share, '0% is best') : []),
  ];
}

const point = (x: number, y: number) => ({ x, y, low: null, high: null });
const axes = { kind: 'lines', xLog: false, yLog: false } as const;

function calibration({ reliability }: Raw): Told[] {
  const bins = records(reliability);
  if (!bins.length) return [];
  const points = bins.map((bin) => point(readNumber(bin.confidence), readNumber(bin.accuracy)));
  const series = [
    { name: 'its answers', points },
    { name: 'as sure as it should be', points: [point(0, 0), point(1, 1)] },
  ];
  const plot: Plot = { ...axes, x: 'confidence', y: 'share that is right', series, marks: [] };
  const note = 'Below the diagonal it is too sure, above it too modest.';
  return [{ title: 'Does it know when it knows?', note, plot }];
}

function coverage({ risk_coverage: curve, precision95 }: Raw): Told[] {
  const points = list(curve).map((each) => {
    const [, share, right] = list(each);
    return point(readNumber(share), readNumber(right));
  });
  if (!points.length) return [];
  const best = isRecord(precision95) ? precision95 : null;
  const marks = best
    ? [{ label: '95 of 100 right', x: end(best.coverage), y: end(best.precision) }]
    : [];
  const x = 'share of questions answered';
  const series = [{ name: 'the surest first', points }];
  const plot: Plot = { ...axes, x, y: 'share of these right', series, marks };
  const note = 'From left to right it dares to answer more.';
  return [{ title: 'How many answers can be trusted?', note, plot }];
}

function verdicts({ verdicts: all }: Raw): Told[] {
  if (!isRecord(all)) return [];
  const values = ['known', 'unsure', 'guess'].flatMap((name): Bar[] => {
    const found = all[name];
    if (!isRecord(found) || finite(found.accuracy) === null) return [];
    const count = finite(found.count) ?? 0;
    return [{ name: `${name} (${count})`, value: readNumber(found.accuracy), low: null, high: null }];
  });
  if (!values.length) return [];
  const plot: Plot = { kind: 'bars', y: 'share that is right', values, marks: [], literal: true };
  return [{ title: 'What a verdict is worth', note: 'In brackets: how many answers.', plot }];
}

function places({ histogram }: Raw): Told[] {
  const values = list(histogram)
    .slice(0, SHOWN)
    .map((pair): Bar => {
      const [name, count] = list(pair);
      return { name: text(name) || '(nothing)', value: readNumber(count), low: null, high: null };
    });
  if (!values.length) return [];
  const plot: Plot = { kind: 'bars', y: 'answers', values, marks: [], literal: true };
  const note = 'A model that guesses says the same few again and again.';
  return [{ title: 'What it answers most', note, plot }];
}

function origins({ origins: groups, accuracy }: Raw): Told[] {
  const values = records(groups).map((group): Bar => {
    const [low, high] = list(group.interval);
    const name = list(group.examples).map(text).slice(0, 2).join(', ') || text(group.label);
    return { name, value: readNumber(group.accuracy), low: end(low), high: end(high) };
  });
  if (!values.length) return [];
  const overall = finite(accuracy);
  const marks = overall === null ? [] : [{ label: 'all', x: null, y: overall }];
  const plot: Plot = { kind: 'bars', y: 'share that is right', values, marks, literal: true };
  const note = 'Names that are spelled alike, each group by two of its names.';
  return [{ title: 'Whom it knows', note, plot }];
}

function mistakesOf({ answers }: Raw): AuditPage['mistakes'] {
  return records(answers)
    .filter((each) => each.correct === false)
    .map((each) => ({
      question: text(each.question),
      answer: text(each.answer),
      gold: text(each.gold),
      confidence: readNumber(each.confidence),
    }))
    .sort((one, other) => other.confidence - one.confidence)
    .slice(0, SHOWN);
}
