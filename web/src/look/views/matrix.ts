// A heatmap of one head, or of the mean of several.

import type { Choices } from '../choices';
import { layerTitle } from '../names';
import { count, number } from '../../shared/text';
import type { Table } from '../../shared/table';
import type { Drawing, Frame, Mark, Need, View } from '../view';
import { missingLayers, weightsNeeded } from './heads';
import { LABEL, LEGEND, PAD, plan, type Plan } from './matrix-layout';
import { chosen, colors, labels, legend, title } from './matrix-marks';
import { cellTarget, rowTargets } from './matrix-targets';

const ROWS = 250000; // of a table

function draw(frame: Frame): Drawing {
  const { choices } = frame;
  const it = plan(frame);
  const { seen, x, y, cell, rows, columns, window } = it;
  const [w, h] = [cell * columns, cell * rows];
  const marks: Mark[] = [
    ...title(it, frame),
    {
      kind: 'raster',
      x,
      y,
      w,
      h,
      rows,
      columns,
      values: colors(it, choices.scale),
      signed: seen.signed,
    },
    { kind: 'rect', x: x - 0.5, y: y - 0.5, w: w + 1, h: h + 1, stroke: 'rule' },
    ...labels(it, frame),
    ...chosen(it, choices),
    ...legend(it, frame, y + h + 12, Math.min(w, 240)),
  ];
  return {
    width: frame.width,
    height: Math.max(y + h + LEGEND + PAD, 120),
    marks,
    targets: rowTargets(it, choices),
    at: (px, py) => {
      const [q, k] = [Math.floor((py - y) / cell), Math.floor((px - x) / cell)];
      return q < 0 || k < 0 || q >= rows || k >= columns
        ? null
        : cellTarget(it, frame, window[0] + q, window[2] + k);
    },
    find: (key) => {
      const [, q, k] = (/^cell (\d+) (\d+)$/.exec(key) ?? []).map(Number);
      return q >= window[0] && q <= window[1] && k >= window[2] && k <= window[3]
        ? cellTarget(it, frame, q, k)
        : null;
    },
    zoom: { x, y, w, h, window, rows: seen.queries.length, columns: seen.keys.length },
    summary: summary(it, frame),
    note: thinned(it),
  };
}

function summary({ seen, shown, window, most }: Plan, frame: Frame): string {
  const side = frame.opened.header.sides[frame.choices.side];
  const zoomed =
    window[1] - window[0] + 1 < seen.queries.length || window[3] - window[2] + 1 < seen.keys.length;
  const part = zoomed
    ? `, queries ${window[0]} to ${window[1]} and keys ${window[2]} to ${window[3]} of `
    : ', ';
  return (
    `${layerTitle(side, frame.choices.layer)}, ${shown.name}${part}` +
    `${seen.queries.length} queries (rows) by ` +
    `${count(seen.keys.length, 'key')} (columns); the largest weight is ${number(most)}.`
  );
}

function thinned({ cell, rows, columns }: Plan): string | undefined {
  const step = Math.ceil(LABEL / cell);
  const drag = rows * columns > 400 ? ' Drag a frame, turn the wheel or press + to zoom.' : '';
  return step > 1
    ? `Every ${step}th token is labeled.${drag}`.replace(
        / ([23])th/,
        (_, n) => ` ${n}${n === '2' ? 'nd' : 'rd'}`,
      )
    : undefined;
}

function table(frame: Frame): Table {
  const { seen, shown, window } = plan(frame);
  const side = frame.opened.header.sides[frame.choices.side];
  const rows: (string | number)[][] = [];
  for (let q = window[0]; q <= window[1] && rows.length < ROWS; q += 1) {
    for (let k = window[2]; k <= window[3]; k += 1) {
      rows.push([
        seen.queries[q].tokens[0],
        seen.queries[q].text,
        seen.keys[k].tokens[0],
        seen.keys[k].text,
        Number(shown.values[q * seen.keys.length + k].toPrecision(5)),
      ]);
    }
  }
  return {
    title: `${layerTitle(side, frame.choices.layer)}, ${shown.name}`,
    header: ['query', 'query token', 'key', 'key token', 'weight'],
    rows,
  };
}

function needs(opened: Frame['opened'], choices: Choices): Need[] {
  const mask = opened.header.sides[choices.side].layers[choices.layer]?.mask ?? null;
  const all = weightsNeeded(choices, choices.layer);
  return mask === null ? all : [...all, { side: choices.side, mask }];
}

export const matrix: View = {
  id: 'matrix',
  key: 'x',
  title: 'Matrix',
  about: 'Each row is a query, each column a key; one head, or the mean of several.',
  missing: missingLayers,
  needs,
  draw,
  table,
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
    'zoom',
    'search',
  ],
};
