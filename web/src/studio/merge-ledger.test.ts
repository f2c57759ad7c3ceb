import { expect, test } from 'vitest';
import { mergeLedger, claimStatements } from './merge-ledger';

const RAW = {
  topics: { one: 'First', two: 'Second' },
  registry: [
    { id: 'a', topic: 'one', statement: 'A holds', control: { what: 'spoiled' } },
    { id: 'b', topic: 'two', statement: 'B holds' },
  ],
  ledger: {
    format: 'attnlab-claims',
    version: 2,
    claims: [
      { id: 'b', topic: 'two', statement: 'B holds', outcome: 'refuted', size: 'full', seed: 3 },
      { id: 'old', topic: 'one', statement: 'Old', outcome: 'holds' },
    ],
  },
};

test('results replace claims that were not run; results of removed claims stay', () => {
  const ledger = mergeLedger(RAW);
  expect(ledger.claims.map(({ id, outcome }) => [id, outcome])).toEqual([
    ['a', 'not run'],
    ['b', 'refuted'],
    ['old', 'holds'],
  ]);
  expect(ledger.topics.map(({ name }) => name)).toEqual(['First', 'Second']);
  expect([ledger.claims[1].seed, ledger.claims[1].size]).toEqual([3, 'full']);
  expect(ledger.size).toBe(''); // each has its own
});

test('without results, all claims are listed as not run', () => {
  const ledger = mergeLedger({ ...RAW, ledger: null });
  expect(ledger.claims.map(({ outcome }) => outcome)).toEqual(['not run', 'not run']);
  expect(claimStatements(RAW).get('a')).toBe('A holds');
});
