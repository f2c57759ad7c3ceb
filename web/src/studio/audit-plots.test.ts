import fc from 'fast-check';
import { expect, test } from 'vitest';
import { readAudit, separateAnswers } from './audit-plots';

const AUDIT = {
  pairs: 500,
  accuracy: 0.9,
  interval: [0.87, 0.93],
  baseline: { answer: 'London', accuracy: 0.05 },
  ece: 0.02,
  roc_area: 0.912,
  made_up: { count: 200, known_share: 0.01 },
  off_topic: { count: 40, known_share: 0 },
  verdicts: { known: { count: 400, accuracy: 0.97 }, unsure: { count: 0, accuracy: null } },
  reliability: [{ confidence: 0.2, accuracy: 0.1, count: 5 }],
  risk_coverage: [[0.9, 0.5, 1], [0.1, 1, 0.9]],
  precision95: { threshold: 0.4, coverage: 0.8, precision: 0.95 },
  histogram: [['London', 40], ['', 3]],
  origins: [{ label: 'Mc-', examples: ['A_1', 'B', 'C'], accuracy: 0.5, interval: [0.4, 0.6] }],
  answers: [
    { question: 'q', answer: 'a', gold: 'b', confidence: 0.3, correct: false, verdict: 'unsure' },
    { question: 'r', answer: 'a', gold: 'a', confidence: 0.9, correct: true, verdict: 'known' },
    { question: 's', answer: 'a', gold: 'b', confidence: 0.8, correct: false, verdict: 'known' },
  ],
}; // prettier-ignore

test('tiles, figures and the most confident mistakes', () => {
  const page = readAudit(AUDIT);
  expect(page.tiles.map(({ name, value }) => [name, value])).toEqual([
    ['Questions', '500'],
    ['Right', '90%'],
    ['Always the same answer', '5%'],
    ['Right if “known”', '97%'],
    ['Ranking', '0.91'],
    ['Calibration error', '2%'],
    ['Made-up “known”', '1%'],
    ['Off-topic “known”', '0%'],
  ]);
  expect(page.figures).toHaveLength(5);
  const [calibration, coverage, verdicts, places, origins] = page.figures.map(({ plot }) => plot);
  expect(calibration).toMatchObject({ series: [{ points: [{ x: 0.2, y: 0.1 }] }, {}] });
  expect(coverage).toMatchObject({ marks: [{ x: 0.8, y: 0.95 }], series: [{ points: [{ x: 0.5, y: 1 }, { x: 1, y: 0.9 }] }] });
  expect(verdicts).toMatchObject({ values: [{ name: 'known (400)', value: 0.97 }] });
  expect(places).toMatchObject({ literal: true, values: [{ name: 'London' }, { name: '(nothing)' }] });
  expect(origins).toMatchObject({ values: [{ name: 'A_1, B', low: 0.4, high: 0.6 }], marks: [{ y: 0.9 }] });
  expect(page.mistakes.map(({ question }) => question)).toEqual(['s']);
});

test('an audit without right answers has fewer figures, and no JSON throws', () => {
  const bare = readAudit({ ...AUDIT, accuracy: null, interval: null, baseline: null, ece: null, roc_area: null, reliability: [], risk_coverage: [], origins: [], verdicts: {}, answers: [] });
  expect(bare.figures.map(({ title }) => title)).toEqual(['What it answers most']);
  fc.assert(
    fc.property(fc.jsonValue(), (value) => {
      const odd = Object.fromEntries(Object.keys(AUDIT).map((name) => [name, value]));
      expect(Array.isArray(readAudit(odd).figures)).toBe(true);
      expect(Array.isArray(readAudit(value).tiles)).toBe(true);
    }),
  );
});

test('answers follow a tab or a question mark', () => {
  expect(separateAnswers('Where? Paris\nWho?\tA? b\n\nWhat? why? x')).toBe('Where?\tParis\nWho?\tA? b\n\nWhat?\twhy? x');
  expect(separateAnswers('Where?\r\nWho?')).toBe('Where?\nWho?');
});
