// The matrix view: a heatmap of one head, or of the mean of several.

import type { Choices } from '../choices';
import { layerTitle } from '../names';
import { count, sensible } from '../../shared/readable-text';
import type { Table } from '../../shared/table-type';
import type { Drawing, Frame, Mark, Need, View } from '../view';
import { describeQuery, missingLayers, weightsNeeded } from './heads';
import {
  LABEL_HEIGHT,
  LEGEND_HEIGHT,
  PADDING,
  layOutMatrix,
  type MatrixLayout,
} from './matrix-layout';
import { selectionFrames, matrixColors, labelMarks, legendMarks, titleMarks } from './matrix-marks';
import { cellTarget, rowTargets } from './matrix-targets';

const MAX_TABLE_ROWS = 250000; // limit of the table

function draw(frame: Frame): Drawing {
  const { choices } = frame;
  const layout = layOutMatrix(frame);
  const { prepared, x, y, cell, rows, columns, window } = layout;
  const [w, h] = [cell * columns, cell * rows];
  const marks: Mark[] = [
    ...titleMarks(layout, frame),
    {
      kind: 'raster',
      x,
      y,
      w,
      h,
      rows,
      columns,
      values: matrixColors(layout, choices.scale),
      signed: prepared.signed,
    },
    { kind: 'rect', x: x - 0.5, y: y - 0.5, w: w + 1, h: h + 1, stroke: 'rule' },
    ...labelMarks(layout, frame),
    ...selectionFrames(layout, choices),
    ...legendMarks(layout, frame, y + h + 12, Math.min(w, 240)),
  ];
  return {
    width: frame.width,
    height: Math.max(y + h + LEGEND_HEIGHT + PADDING, 120),
    marks,
    targets: rowTargets(layout, choices),
    targetAt: (px, py) => {
      const [q, k] = [Math.floor((py - y) / cell), Math.floor((px - x) / cell)];
      return q < 0 || k < 0 || q >= rows || k >= columns
        ? null
        : cellTarget(layout, frame, window[0] + q, window[2] + k);
    },
    findByKey: (key) => {
      const [, q, k] = (/^cell (\d+) (\d+)$/.exec(key) ?? []).map(Number);
      return q >= window[0] && q <= window[1] && k >= window[2] && k <= window[3]
        ? cellTarget(layout, frame, q, k)
        : null;
    },
    zoom: { x, y, w, h, window, rows: prepared.queries.length, columns: prepared.keys.length },
    summary: summarize(layout, frame),
    note: describeLabels(layout),
  };
}

function summarize({ prepared, displayed, window, largest }: MatrixLayout, frame: Frame): string {
  const side = frame.capture.header.sides[frame.choices.side];
  const zoomed =
    window[1] - window[0] + 1 < prepared.queries.length ||
    window[3] - window[2] + 1 < prepared.keys.length;
  const visiblePart = zoomed
    ? `, queries ${window[0]} to ${window[1]} and keys ${window[2]} to ${window[3]} of `
    : ', ';
  const title = layerTitle(side, frame.choices.layer);
  const selected = prepared.queries.flatMap((item, i) =>
    item.tokens.some((token) => frame.choices.queries.includes(token)) ? [i] : [],
  );
  if (!zoomed && selected.length === 1)
    return `${title}, ${describeQuery(prepared, selected[0], displayed)}.`;
  return (
    `${title}, ${displayed.name}${visiblePart}` +
    `${prepared.queries.length} queries (rows) by ` +
    `${count(prepared.keys.length, 'key')} (columns); the largest weight is ${sensible(largest)}.`
  );
}

function describeLabels({ cell, rows, columns }: MatrixLayout): string | undefined {
  const step = Math.ceil(LABEL_HEIGHT / cell);
  const zoomHint =
    rows * columns > 400 ? ' Drag a rectangle, turn the wheel or press + to zoom.' : '';
  return step > 1
    ? `Every ${step}th token is labeled.${zoomHint}`.replace(
        / ([23])th/,
        (_, n) => ` ${n}${n === '2' ? 'nd' : 'rd'}`,
      )
    : undefined;
}

function table(frame: Frame): Table {
  const { prepared, displayed, window } = layOutMatrix(frame);
  const side = frame.capture.header.sides[frame.choices.side];
  const rows: (string | number)[][] = [];
  for (let q = window[0]; q <= window[1] && rows.length < MAX_TABLE_ROWS; q += 1) {
    for (let k = window[2]; k <= window[3]; k += 1) {
      rows.push([
        prepared.queries[q].tokens[0],
        prepared.queries[q].text,
        prepared.keys[k].tokens[0],
        prepared.keys[k].text,
        Number(displayed.values[q * prepared.keys.length + k].toPrecision(5)),
      ]);
    }
  }
  return {
    title: `${layerTitle(side, frame.choices.layer)}, ${displayed.name}`,
    header: ['query', 'query token', 'key', 'key token', 'weight'],
    rows,
  };
}

function needs(capture: Frame['capture'], choices: Choices): Need[] {
  const mask = capture.header.sides[choices.side].layers[choices.layer]?.mask ?? null;
  const all = weightsNeeded(choices, choices.layer);
  return mask === null ? all : [...all, { side: choices.side, mask }];
}

export const matrix: View = {
  id: 'matrix',
  key: 'x',
  title: 'Matrix',
  description:
    'A heatmap: each row is a query, each column a key; one head, or the mean of several.',
  missingReason: missingLayers,
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
