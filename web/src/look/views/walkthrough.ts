// The walkthrough as a view. Its page is in walkthrough/; its figure and table hold the keys of the
// query with scores and weights.

import { number, quoted, sensible } from '../../shared/readable-text';
import type { Table } from '../../shared/table-type';
import type { Capture } from '../capture';
import type { Choices } from '../choices';
import { headName, layerTitle } from '../names';
import type { Drawing, Frame, Need } from '../view';
import { WalkthroughPage } from '../walkthrough/page';
import { readWalk, weightsAt, type Walk } from '../walkthrough/walk-data';
import type { View } from '../view';
import { maskedSoftmax, type Scores } from './attention-scores';
import { keyBarsHeight, keyBarsMarks } from './key-bars';

const PADDING = 12;

function needs(capture: Capture, choices: Choices): Need[] {
  const { side, layer } = choices;
  const { mask } = capture.header.sides[side].layers[layer];
  const own: Need[] = [
    { side, layer, parts: ['weights', 'q', 'k', 'v', 'bias', 'norms'] }, { side, walkthrough: true },
  ];
  return mask === null ? own : [...own, { side, mask }];
}

function scoresOf(walk: Walk): Scores {
  const { head, query, q, bias, allowed, weights, scores, isSoftmax, explained } = walk;
  return {
    head, query, q, bias, allowed, captured: weights,
    dots: walk.dots && Float64Array.from(walk.dots),
    scores: isSoftmax ? scores : null,
    softmax: explained && scores ? maskedSoftmax(scores, allowed) : null,
    errorBound: () => 0,
  };
}

function summarize(walk: Walk): string {
  const best = walk.weights.reduce((most, x, i) => (x > walk.weights[most] ? i : most), 0);
  return (
    `The path of ${quoted(walk.queries[walk.query].text)} through ` +
    `${layerTitle(walk.side, walk.index)}, head ${headName(walk.layer, walk.head)}: ` +
    `it attends most to ${quoted(walk.keys[best].text)}, ${sensible(walk.weights[best])}.`
  );
}

function draw({ capture, choices, width, measure }: Frame): Drawing {
  const walk = readWalk(capture, choices);
  const bars = {
    scores: scoresOf(walk), queries: walk.queries, keys: walk.keys, key: walk.key, measure,
    x: PADDING, y: PADDING, w: width - 2 * PADDING,
  };
  return {
    width, height: keyBarsHeight(bars) + 2 * PADDING, marks: keyBarsMarks(bars), targets: [],
    summary: summarize(walk),
  };
}

const HEADER = [
  'key', 'token', 'q · k', 'bias', 'score', 'allowed', 'weight', 'weight at temperature',
  'length of the value',
];

function table({ capture, choices }: Frame): Table {
  const walk = readWalk(capture, choices);
  const atTemperature = weightsAt(walk, choices.temperature);
  const cell = (values: ArrayLike<number> | null, i: number): number | string =>
    values === null ? '' : Number(values[i].toPrecision(7));
  return {
    title: `${summarize(walk)} Temperature ${number(choices.temperature, 2)}.`,
    header: HEADER,
    rows: walk.keys.map((token, i) => [
      i, token.text, cell(walk.dots, i), cell(walk.bias, i),
      cell(walk.isSoftmax ? walk.scores : null, i), walk.allowed[i] ? 'yes' : 'no',
      cell(walk.weights, i), cell(atTemperature, i), cell(walk.norms, i),
    ]),
  };
}

export const walkthrough: View = {
  id: 'walkthrough',
  key: 'l',
  title: 'Walkthrough',
  description: 'The path of one token through the model, step by step, with all its numbers.',
  missingReason: () => null,
  needs,
  draw,
  table,
  page: WalkthroughPage,
  controls: ['side', 'layer'],
};
