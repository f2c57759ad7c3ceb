// Marks of the matrix view: title, colors, labels, selection and legend.

import type { Choices } from '../choices';
import { layerTitle } from '../names';
import { itemIndices, colorStrengths, type Item } from '../prepare-weights';
import { matchesSearch, number, short } from '../../shared/readable-text';
import type { Frame, Mark } from '../view';
import { LABEL_HEIGHT, PADDING, TITLE_HEIGHT, type MatrixLayout } from './matrix-layout';

export function titleMarks({ prepared, displayed }: MatrixLayout, frame: Frame): Mark[] {
  const side = frame.capture.header.sides[frame.choices.side];
  const text = [
    `${layerTitle(side, frame.choices.layer)}, ${displayed.name}`,
    ...prepared.adjustments,
  ].join(' · ');
  return [
    {
      kind: 'text',
      x: PADDING,
      y: 16,
      size: 13,
      bold: true,
      text,
      limit: frame.width - 2 * PADDING,
    },
  ];
}

// Caches the colors, so that the same part of a matrix is painted only once.
const colorCache = new WeakMap<Float32Array, Map<string, Float32Array>>();

export function matrixColors(
  { prepared, displayed, fullColorWeight, window, rows, columns }: MatrixLayout,
  scale: Choices['scale'],
): Float32Array {
  let cached = colorCache.get(displayed.values);
  if (!cached) colorCache.set(displayed.values, (cached = new Map()));
  const key = `${scale} ${window.join(' ')}`;
  const cachedColors = cached.get(key);
  if (cachedColors) return cachedColors;
  const part = new Float32Array(rows * columns);
  for (let row = 0; row < rows; row += 1) {
    const start = (window[0] + row) * prepared.keys.length + window[2];
    part.set(displayed.values.subarray(start, start + columns), row * columns);
  }
  const created = colorStrengths(part, fullColorWeight, scale);
  if (cached.size > 8) cached.clear();
  cached.set(key, created);
  return created;
}

export function labelMarks(layout: MatrixLayout, frame: Frame): Mark[] {
  const { prepared, x, y, cell, window } = layout;
  const labelStep = Math.max(1, Math.ceil(LABEL_HEIGHT / cell));
  const { search } = frame.choices;
  const marks: Mark[] = [];
  const size = Math.min(12, Math.max(10, cell - 2));
  const addLabel = (item: Item, index: number, isRow: boolean): void => {
    const middle = (index + 0.5) * cell;
    const isMatch = matchesSearch(item.text, search);
    if (index % labelStep !== 0 && !isMatch) return;
    const fill = item.special ? 'dim' : 'ink';
    if (isMatch) {
      marks.push(
        isRow
          ? {
              kind: 'rect',
              x: PADDING,
              y: y + index * cell,
              w: x - PADDING - 2,
              h: Math.max(2, cell),
              fill: 'found',
            }
          : {
              kind: 'rect',
              x: x + index * cell,
              y: TITLE_HEIGHT,
              w: Math.max(2, cell),
              h: y - TITLE_HEIGHT - 2,
              fill: 'found',
            },
      );
      if (index % labelStep !== 0) return;
    }
    marks.push(
      isRow
        ? {
            kind: 'text',
            x: x - 5,
            y: y + middle + size * 0.35,
            size,
            text: short(item.text),
            anchor: 'end',
            limit: x - PADDING - 6,
            fill,
          }
        : {
            kind: 'text',
            x: x + middle + size * 0.35,
            y: y - 5,
            size,
            text: short(item.text),
            rotate: -90,
            limit: y - TITLE_HEIGHT - 6,
            fill,
          },
    );
  };
  for (let q = window[0]; q <= window[1]; q += 1)
    addLabel(prepared.queries[q], q - window[0], true);
  for (let k = window[2]; k <= window[3]; k += 1) addLabel(prepared.keys[k], k - window[2], false);
  return marks;
}

// Frames around the rows of the selected queries and the column of the selected key.
export function selectionFrames(
  { prepared, x, y, cell, window, rows, columns }: MatrixLayout,
  choices: Choices,
): Mark[] {
  const frameMark = (left: number, top: number, w: number, h: number): Mark => ({
    kind: 'rect',
    x: left,
    y: top,
    w,
    h,
    stroke: 'accent',
  });
  const selectedRows =
    choices.queries.length > 200 ? [] : itemIndices(prepared.queries, choices.queries);
  const selectedColumns = choices.key === null ? [] : itemIndices(prepared.keys, [choices.key]);
  return [
    ...selectedRows
      .filter((q) => q >= window[0] && q <= window[1])
      .map((q) => frameMark(x, y + (q - window[0]) * cell, cell * columns, cell)),
    ...selectedColumns
      .filter((k) => k >= window[2] && k <= window[3])
      .map((k) => frameMark(x + (k - window[2]) * cell, y, cell, cell * rows)),
  ];
}

export function legendMarks(
  { prepared, largest, fullColorWeight, x }: MatrixLayout,
  frame: Frame,
  y: number,
  width: number,
): Mark[] {
  const { choices } = frame;
  const barWidth = Math.max(90, width);
  const ramp = Float32Array.from({ length: 64 }, (_, i) =>
    prepared.signed ? i / 31.5 - 1 : i / 63,
  );
  const middleFraction = { linear: 0.5, sqrt: 0.25, log: 0.01 }[choices.scale];
  const name = prepared.signed ? 'weight; − marks negative ones' : 'weight';
  const maxText = `${fullColorWeight < largest ? '≥ ' : ''}${number(fullColorWeight, 3)}`;
  const ticks: [number, string][] = prepared.signed
    ? [
        [0, `${fullColorWeight < largest ? '≤ ' : ''}${number(-fullColorWeight, 3)}`],
        [0.5, '0'],
        [1, maxText],
      ]
    : [
        [0, choices.scale === 'log' ? `≤ ${number(fullColorWeight * 1e-4)}` : '0'],
        [0.5, number(fullColorWeight * middleFraction, 3)],
        [1, maxText],
      ];
  return [
    {
      kind: 'raster',
      x,
      y,
      w: barWidth,
      h: 8,
      rows: 1,
      columns: 64,
      values: ramp,
      signed: prepared.signed,
    },
    { kind: 'rect', x: x - 0.5, y: y - 0.5, w: barWidth + 1, h: 9, stroke: 'rule' },
    ...ticks.map(([fraction, text], i): Mark => ({
      kind: 'text',
      x: x + fraction * barWidth,
      y: y + 21,
      size: 11,
      fill: 'dim',
      text,
      anchor: (['start', 'middle', 'end'] as const)[i],
    })),
    ...(frame.measure(name, 11) > frame.width - x - barWidth - 10
      ? []
      : [
          {
            kind: 'text',
            x: x + barWidth + 10,
            y: y + 8,
            size: 11,
            fill: 'dim',
            text: name,
          } as Mark,
        ]),
  ];
}
