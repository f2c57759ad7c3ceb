// Tokens in two columns; a line for each weight, in its head's color.

import type { Opened } from '../capture';
import type { Choices } from '../choices';
import { layerTitle } from '../names';
import { places, prepare, type Seen } from '../prepare';
import { count, number, quoted } from '../../shared/text';
import type { Table } from '../../shared/table';
import type { Drawing, Frame, Mark, Need, View } from '../view';
import { PAD, plan, type Plan } from './heads-layout';
import { heading, labels, rules, strips, strokes } from './heads-marks';
import { targets } from './heads-targets';
import { shownHeads, strongest, type Strong } from './lines';

export function weightsNeeded(choices: Choices, layer: number): Need[] {
  return [
    {
      side: choices.side,
      layer,
      parts: choices.weighting === 'norms' ? ['weights', 'norms'] : ['weights'],
    },
  ];
}

// Where the chosen tokens stand; null: all of them.
function focus(seen: Seen, choices: Choices) {
  return {
    asked: choices.queries.length ? places(seen.queries, choices.queries) : null,
    answered: choices.key === null ? null : places(seen.keys, [choices.key]),
  };
}

function linesOf(seen: Seen, shown: ReturnType<typeof shownHeads>, choices: Choices): Strong {
  const { asked, answered } = focus(seen, choices);
  const [keys, queries] = [seen.keys.length, seen.queries.length];
  return strongest(shown, keys, asked, answered, queries, choices.scale);
}

export function drawHeads(frame: Frame, layer: number): Drawing {
  const { choices } = frame;
  const it = plan(frame, layer);
  const { seen, shown, columns, top, row } = it;
  const { asked, answered } = focus(seen, choices);
  const lines = linesOf(seen, shown, choices);
  const marks: Mark[] = [
    ...heading(it, frame, layer),
    ...rules(it, frame, layer),
    ...strokes(it, lines, choices),
    ...strips(it, asked, answered, choices),
    ...labels(it, columns[0], asked, choices),
    ...labels(it, columns[1], answered, choices),
  ];
  return {
    width: frame.width,
    height: top + row * Math.max(seen.queries.length, seen.keys.length) + PAD,
    marks,
    targets: [...targets(it, columns[0], choices), ...targets(it, columns[1], choices)],
    summary: summary(it, frame, layer, asked, answered),
    note: leftOut(lines),
  };
}

function summary(
  it: Plan,
  frame: Frame,
  layer: number,
  asked: number[] | null,
  answered: number[] | null,
): string {
  const { seen, shown } = it;
  const side = frame.opened.header.sides[frame.choices.side];
  const from = asked
    ? asked
        .map((i) => quoted(seen.queries[i].text))
        .slice(0, 5)
        .join(', ')
    : count(seen.queries.length, 'query').replace('querys', 'queries');
  const to = answered?.length
    ? quoted(seen.keys[answered[0]].text)
    : count(seen.keys.length, 'key');
  return (
    `${layerTitle(side, layer)}, ` +
    `${shown.length > 1 ? count(shown.length, 'head') : shown[0].name}: ` +
    `attention from ${from}${asked && asked.length > 5 ? ', …' : ''} to ${to}.`
  );
}

function leftOut(lines: Strong): string | undefined {
  if (!lines.left) return undefined;
  const which =
    lines.every > 1
      ? `weights below ${number(lines.cut)} and most of those about as large`
      : `weights below ${number(lines.cut)}`;
  const left = lines.about
    ? `about ${Number(lines.left.toPrecision(2)).toLocaleString('en')}`
    : lines.left.toLocaleString('en');
  return (
    `${count(lines.size, 'line')} drawn; ${left} left out: ${which}. ` +
    'Point at a token or choose fewer heads to see them.'
  );
}

export function tableOf(frame: Frame, layer: number): Table {
  const { choices } = frame;
  const seen = prepare(frame.opened, choices, choices.side, layer);
  const shown = shownHeads(seen, choices);
  const lines = linesOf(seen, shown, choices);
  const order = Array.from({ length: lines.size }, (_, i) => i).sort(
    (one, other) => Math.abs(lines.weights[other]) - Math.abs(lines.weights[one]),
  );
  const side = frame.opened.header.sides[choices.side];
  return {
    title: `${layerTitle(side, layer)}: the lines that are drawn, strongest first`,
    header: ['head', 'query', 'query token', 'key', 'key token', 'weight'],
    rows: order.map((i) => {
      const [query, key] = [seen.queries[lines.queries[i]], seen.keys[lines.keys[i]]];
      const { head } = shown[lines.shown[i]];
      return [
        head < 0 ? 'mean' : seen.layer.heads[head],
        query.tokens[0],
        query.text,
        key.tokens[0],
        key.text,
        Number(lines.weights[i].toPrecision(5)),
      ];
    }),
  };
}

export const missingLayers = (opened: Opened, choices: Choices): string | null =>
  opened.header.sides[choices.side].layers.length ? null : 'This capture has no attention layers.';

export const heads: View = {
  id: 'heads',
  key: 'e',
  title: 'Heads',
  about: 'Lines from each token to the tokens it looks at, in the colors of the heads.',
  missing: missingLayers,
  needs: (_, choices) => weightsNeeded(choices, choices.layer),
  draw: (frame) => drawHeads(frame, frame.choices.layer),
  table: (frame) => tableOf(frame, frame.choices.layer),
  controls: [
    'side',
    'layer',
    'heads',
    'queries',
    'scale',
    'threshold',
    'top',
    'sinks',
    'words',
    'weighting',
    'search',
  ],
};
