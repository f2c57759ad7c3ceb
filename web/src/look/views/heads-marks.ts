// Marks of the heads view: title, legend, lines, strips and tokens.

import { querySequence } from '../query-labels';
import type { Choices } from '../choices';
import { layerTitle } from '../names';
import { colorStrength, maxAbs, type PreparedWeights } from '../prepare-weights';
import { count, matchesSearch, isolate, sensible, short } from '../../shared/readable-text';
import { headColor, headDash } from '../../shared/theme';
import type { Frame, Mark } from '../view';
import {
  legendHeight,
  SWATCH_WIDTH,
  SWATCH_HEIGHT,
  TITLE_HEIGHT,
  type Column,
  type HeadsLayout,
} from './heads-layout';
import { meanHead, receivedWeights, type LineSet } from './strongest-lines';

const DOTS = [1.5, 3]; // dash pattern of negative weights
const MAX_SHADE = 0.42; // opacity of the strongest shade; text on it has a contrast of at least 4.5
const MIN_SHADE = 0.02;
const MIN_NUMBER = 0.005; // smaller weights are not written

export function headingMarks(layout: HeadsLayout, frame: Frame, layer: number): Mark[] {
  const side = frame.capture.header.sides[frame.choices.side];
  const { prepared, displayed, left, width, columns } = layout;
  const heads = displayed.length > 1 ? count(displayed.length, 'head') : displayed[0].name;
  const marks: Mark[] = [
    {
      kind: 'text',
      x: left,
      y: 15,
      size: 13,
      bold: true,
      limit: width,
      text: [`${layerTitle(side, layer)}, ${heads}`, ...prepared.adjustments].join(' · '),
    },
  ];
  if (legendHeight(displayed, width)) marks.push(...legendMarks(layout));
  const columnNames = [
    `queries: ${isolate(short(querySequence(side, prepared.layer).name))}`,
    `keys: ${isolate(short(side.sequences[prepared.layer.keys].name))}`,
  ];
  columns.forEach((column, i) =>
    marks.push({
      kind: 'text',
      x: column.label,
      y: layout.top - 8,
      size: 11,
      fill: 'dim',
      text: columnNames[i],
      anchor: column.side === 'left' ? 'end' : 'start',
      limit: Math.max(column.width, 90),
    }),
  );
  return marks;
}

function legendMarks({ displayed, prepared, left, width }: HeadsLayout): Mark[] {
  const perRow = Math.max(1, Math.floor(width / SWATCH_WIDTH));
  const dottedNote: Mark[] = prepared.signed
    ? [
        {
          kind: 'text',
          x: left + width,
          y: 15,
          size: 11,
          fill: 'dim',
          anchor: 'end',
          text: 'dotted: negative',
        },
      ]
    : [];
  return dottedNote.concat(
    displayed.flatMap(({ head }, i): Mark[] => {
      const [x, y] = [
        left + (i % perRow) * SWATCH_WIDTH,
        TITLE_HEIGHT + Math.floor(i / perRow) * SWATCH_HEIGHT + 10,
      ];
      return [
        {
          kind: 'line',
          x1: x,
          y1: y,
          x2: x + 20,
          y2: y,
          stroke: lineColor(head),
          width: 3,
          opacity: 1,
          dash: lineDash(head, prepared),
        },
        {
          kind: 'text',
          x: x + 24,
          y: y + 4,
          size: 11,
          fill: 'dim',
          text: String(prepared.layer.heads[head]),
        },
      ];
    }),
  );
}

export function lineColor(head: number): string {
  return head < 0 ? 'accent' : headColor(head);
}

// If weights can be negative, only the sign is dotted.
function lineDash(head: number, prepared: PreparedWeights): number[] {
  return head < 0 || prepared.signed ? [] : headDash(head);
}

// Thin rules between segments, and before the generated part.
export function ruleMarks(
  { prepared, columns, top, rowHeight }: HeadsLayout,
  frame: Frame,
  layer: number,
): Mark[] {
  const side = frame.capture.header.sides[frame.choices.side];
  const info = side.layers[layer];
  return columns.flatMap((column, i) => {
    const sequence = i === 0 ? querySequence(side, info) : side.sequences[info.keys];
    const items = i === 0 ? prepared.queries : prepared.keys;
    return items.flatMap((item, index): Mark[] => {
      const token = item.tokens[0];
      const isStart =
        token > 0 &&
        (sequence.prompt === token ||
          (sequence.segments !== null &&
            sequence.segments[token] !== sequence.segments[token - 1]));
      const [from, to] =
        column.side === 'left'
          ? [column.label - column.width, column.label]
          : [column.label, column.label + column.width];
      const y = top + index * rowHeight;
      return isStart
        ? [
            {
              kind: 'line',
              x1: from,
              y1: y,
              x2: to,
              y2: y,
              stroke: 'dim',
              width: 1,
              opacity: 0.6,
              dash: [2, 2],
            },
          ]
        : [];
    });
  });
}

export function lineMarks(
  { prepared, displayed, columns, top, rowHeight }: HeadsLayout,
  lines: LineSet,
  choices: Choices,
): Mark[] {
  const fewLines = lines.size < 3000;
  const groups = new Map<number, number[]>(); // by head and sign
  for (let i = 0; i < lines.size; i += 1) {
    const key = lines.headIndices[i] * 2 + (lines.weights[i] < 0 ? 1 : 0);
    const group = groups.get(key);
    if (group) group.push(i);
    else groups.set(key, [i]);
  }
  return [...groups.values()].map((group): Mark => {
    const [points, size] = [new Float32Array(group.length * 4), group.length];
    const [opacities, widths] = [new Float32Array(size), new Float32Array(size)];
    group.forEach((line, i) => {
      const strength = colorStrength(Math.abs(lines.weights[line]) / lines.largest, choices.scale);
      const at = 0.5 + headOffset(lines.headIndices[line], displayed.length);
      points[4 * i] = columns[0].x;
      points[4 * i + 1] = top + (lines.queries[line] + at) * rowHeight;
      points[4 * i + 2] = columns[1].x;
      points[4 * i + 3] = top + (lines.keys[line] + at) * rowHeight;
      opacities[i] = Math.max(0.04, strength * (fewLines ? 0.95 : 0.8));
      widths[i] = fewLines ? 0.75 + 2 * strength : 0.75 + 0.5 * strength;
    });
    const { head } = displayed[lines.headIndices[group[0]]];
    const dash = lines.weights[group[0]] < 0 ? DOTS : fewLines ? lineDash(head, prepared) : [];
    return { kind: 'lines', points, opacities, widths, stroke: lineColor(head), dash };
  });
}

const HEADS_SIDE_BY_SIDE = 8; // more heads share places
const SPREAD = 0.6; // of the height of a row

// Lines of different heads end at different heights of a row, so that none hides another.
function headOffset(index: number, heads: number): number {
  const places = Math.min(heads, HEADS_SIDE_BY_SIDE);
  return (((index % places) + 0.5) / places - 0.5) * SPREAD;
}

// The weight of each item of a column, if tokens of the other one are selected: their sum over the
// displayed heads' mean. Null if nothing is selected.
export function selectedWeights(
  { prepared }: HeadsLayout,
  column: Column,
  queryIndices: number[] | null,
  keyIndices: number[] | null,
): Float32Array | null {
  const mean = meanHead(prepared);
  if (column.side === 'left') {
    if (!keyIndices?.length) return null;
    return Float32Array.from(prepared.queries, (_, q) =>
      queryIndices && !queryIndices.includes(q) ? 0 : mean.cell(q, keyIndices[0]),
    );
  }
  if (!queryIndices?.length) return null;
  const row = prepared.sum(mean.heads, queryIndices);
  return keyIndices ? row.map((value, key) => (keyIndices.includes(key) ? value : 0)) : row;
}

// Shades the tokens themselves and writes their weights beside them.
export function weightMarks(
  layout: HeadsLayout,
  column: Column,
  weights: Float32Array,
  choices: Choices,
): Mark[] {
  const { displayed, top, rowHeight, fontSize, numberWidth, cellWidth } = layout;
  const largest = maxAbs(weights);
  if (!(largest > 0)) return [];
  const color = displayed.length === 1 ? lineColor(displayed[0].head) : 'accent';
  const left = column.side === 'left';
  const strip = cellWidth * displayed.length;
  return Array.from(weights).flatMap((weight, i): Mark[] => {
    const strength = colorStrength(Math.abs(weight) / largest, choices.scale);
    if (!(strength > MIN_SHADE)) return [];
    const y = top + i * rowHeight;
    return [
      {
        kind: 'rect',
        x: left ? column.label - column.width : column.label,
        y: y + 0.5,
        w: column.width,
        h: rowHeight - 1,
        fill: color,
        opacity: MAX_SHADE * strength,
        radius: 3,
      },
      ...(numberWidth && Math.abs(weight) >= MIN_NUMBER
        ? [
            {
              kind: 'text' as const,
              x: left ? column.strip - 4 : column.strip + strip + 4,
              y: y + 0.5 * rowHeight + fontSize * 0.33,
              size: Math.min(12, fontSize),
              text: sensible(weight),
              anchor: left ? ('end' as const) : ('start' as const),
              bold: strength > 0.5,
              limit: numberWidth,
            },
          ]
        : []),
    ];
  });
}

// Strips beside the tokens: the total weight that each key receives, or, with a selected key, the
// weight of each query on it.
export function stripMarks(
  layout: HeadsLayout,
  queryIndices: number[] | null,
  keyIndices: number[] | null,
  choices: Choices,
): Mark[] {
  const { prepared, displayed, columns, top, rowHeight, cellWidth } = layout;
  if (!cellWidth) return [];
  const marks: Mark[] = [];
  const addCells = (column: Column, values: Float32Array[], largest: number): void => {
    values.forEach((headValues, i) =>
      headValues.forEach((value, index) => {
        const strength = colorStrength(Math.abs(value) / largest, choices.scale);
        if (!(strength > 0.02)) return;
        marks.push({
          kind: 'rect',
          x: column.strip + i * cellWidth,
          y: top + index * rowHeight + 1,
          w: cellWidth - 1,
          h: rowHeight - 2,
          fill: lineColor(displayed[i].head),
          opacity: strength,
        });
        if (value < 0) {
          const y = top + (index + 0.5) * rowHeight;
          marks.push({
            kind: 'line',
            x1: column.strip + i * cellWidth,
            y1: y,
            x2: column.strip + (i + 1) * cellWidth - 1,
            y2: y,
            stroke: 'ink',
            width: 1,
            opacity: 1,
          });
        }
      }),
    );
  };
  if (keyIndices) {
    const [key] = keyIndices;
    const weightsOnKey = displayed.map(({ cell: weight }) =>
      Float32Array.from(prepared.queries, (_, q) =>
        queryIndices && !queryIndices.includes(q) ? 0 : weight(q, key),
      ),
    );
    addCells(
      columns[0],
      weightsOnKey,
      Math.max(
        1e-30,
        ...weightsOnKey.map((each) => each.reduce((m, x) => Math.max(m, Math.abs(x)), 0)),
      ),
    );
  } else {
    const { sums, largest } = receivedWeights(
      displayed,
      prepared.keys.length,
      queryIndices,
      prepared.queries.length,
    );
    if (largest > 0) addCells(columns[1], sums, largest);
  }
  return marks;
}

export function labelMarks(
  layout: HeadsLayout,
  column: Column,
  selected: number[] | null,
  weights: Float32Array | null, // shaded tokens are never dim, which would be hard to read
  choices: Choices,
): Mark[] {
  const { prepared, top, rowHeight, fontSize } = layout;
  const selectedSet = new Set(selected ?? []);
  const hidden = column.side === 'right' ? prepared.hidden : [];
  return column.items.flatMap((item, i): Mark[] => {
    const left = column.side === 'left';
    const x = left ? column.label - column.width : column.label;
    const background = matchesSearch(item.text, choices.search)
      ? 'found'
      : selectedSet.has(i)
        ? 'card'
        : null;
    const backgroundMark: Mark[] = background
      ? [
          {
            kind: 'rect',
            x,
            y: top + i * rowHeight,
            w: column.width,
            h: rowHeight,
            fill: background,
            radius: 3,
          },
        ]
      : [];
    const selectionBar: Mark[] = selectedSet.has(i)
      ? [
          {
            kind: 'rect',
            x: left ? x : x + column.width - 3,
            y: top + i * rowHeight,
            w: 3,
            h: rowHeight,
            fill: 'accent',
          },
        ]
      : [];
    return [
      ...backgroundMark,
      ...selectionBar,
      {
        kind: 'text',
        x: left ? column.label - 4 : column.label + 4,
        y: top + (i + 0.5) * rowHeight + fontSize * 0.35,
        size: fontSize,
        text: short(item.text),
        anchor: left ? 'end' : 'start',
        bold: selectedSet.has(i),
        limit: column.width - 8,
        fill: (item.special || hidden[i]) && !weights?.[i] ? 'dim' : 'ink',
      },
    ];
  });
}
