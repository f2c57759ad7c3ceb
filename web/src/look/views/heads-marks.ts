// Marks of the two columns: legend, lines, strips and tokens.

import { asking } from '../asking';
import type { Choices } from '../choices';
import { layerTitle } from '../names';
import { shade, type Seen } from '../prepare';
import { count, found, isolate, short } from '../../shared/text';
import { headColor, headDash } from '../../shared/theme';
import type { Frame, Mark } from '../view';
import { legendHeight, SPACE, SWATCH, TOP, type Column, type Plan } from './heads-layout';
import { received, type Strong } from './lines';

const DOTS = [1.5, 3]; // a negative weight

export function heading(it: Plan, frame: Frame, layer: number): Mark[] {
  const side = frame.opened.header.sides[frame.choices.side];
  const { seen, shown, left, width, columns } = it;
  const heads = shown.length > 1 ? count(shown.length, 'head') : shown[0].name;
  const marks: Mark[] = [
    {
      kind: 'text',
      x: left,
      y: 15,
      size: 13,
      bold: true,
      limit: width,
      text: [`${layerTitle(side, layer)}, ${heads}`, ...seen.changed].join(' · '),
    },
  ];
  if (legendHeight(shown, width)) marks.push(...legend(it));
  const names = [
    `queries: ${isolate(short(asking(side, seen.layer).name))}`,
    `keys: ${isolate(short(side.sequences[seen.layer.keys].name))}`,
  ];
  columns.forEach((column, i) =>
    marks.push({
      kind: 'text',
      x: column.label,
      y: it.top - 8,
      size: 11,
      fill: 'dim',
      text: names[i],
      anchor: column.side === 'left' ? 'end' : 'start',
      limit: Math.max(column.width, 90),
    }),
  );
  return marks;
}

function legend({ shown, seen, left, width }: Plan): Mark[] {
  const each = Math.max(1, Math.floor(width / SPACE));
  const dotted: Mark[] = seen.signed
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
  return dotted.concat(
    shown.flatMap(({ head }, i): Mark[] => {
      const [x, y] = [left + (i % each) * SPACE, TOP + Math.floor(i / each) * SWATCH + 10];
      return [
        {
          kind: 'line',
          x1: x,
          y1: y,
          x2: x + 20,
          y2: y,
          stroke: colorOf(head),
          width: 3,
          opacity: 1,
          dash: dashOf(head, seen),
        },
        {
          kind: 'text',
          x: x + 24,
          y: y + 4,
          size: 11,
          fill: 'dim',
          text: String(seen.layer.heads[head]),
        },
      ];
    }),
  );
}

export function colorOf(head: number): string {
  return head < 0 ? 'accent' : headColor(head);
}

// Where weights can be negative, dots are for the sign.
function dashOf(head: number, seen: Seen): number[] {
  return head < 0 || seen.signed ? [] : headDash(head);
}

// Thin rules where one segment ends and the next begins, and before what was generated.
export function rules({ seen, columns, top, row }: Plan, frame: Frame, layer: number): Mark[] {
  const side = frame.opened.header.sides[frame.choices.side];
  const info = side.layers[layer];
  return columns.flatMap((column, i) => {
    const sequence = i === 0 ? asking(side, info) : side.sequences[info.keys];
    const items = i === 0 ? seen.queries : seen.keys;
    return items.flatMap((item, place): Mark[] => {
      const token = item.tokens[0];
      const begins =
        token > 0 &&
        (sequence.prompt === token ||
          (sequence.segments !== null &&
            sequence.segments[token] !== sequence.segments[token - 1]));
      const [from, to] =
        column.side === 'left'
          ? [column.label - column.width, column.label]
          : [column.label, column.label + column.width];
      const y = top + place * row;
      return begins
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

export function strokes(
  { seen, shown, columns, top, row }: Plan,
  lines: Strong,
  choices: Choices,
): Mark[] {
  const sparse = lines.size < 3000;
  const groups = new Map<number, number[]>(); // lines of one head and one sign
  for (let i = 0; i < lines.size; i += 1) {
    const key = lines.shown[i] * 2 + (lines.weights[i] < 0 ? 1 : 0);
    const group = groups.get(key);
    if (group) group.push(i);
    else groups.set(key, [i]);
  }
  return [...groups.values()].map((group): Mark => {
    const [points, size] = [new Float32Array(group.length * 4), group.length];
    const [opacities, widths] = [new Float32Array(size), new Float32Array(size)];
    group.forEach((line, i) => {
      const strength = shade(Math.abs(lines.weights[line]) / lines.most, choices.scale);
      points[4 * i] = columns[0].x;
      points[4 * i + 1] = top + (lines.queries[line] + 0.5) * row;
      points[4 * i + 2] = columns[1].x;
      points[4 * i + 3] = top + (lines.keys[line] + 0.5) * row;
      opacities[i] = Math.max(0.04, strength * (sparse ? 0.95 : 0.8));
      widths[i] = sparse ? 0.75 + 2 * strength : 0.75 + 0.5 * strength;
    });
    const { head } = shown[lines.shown[group[0]]];
    const dash = lines.weights[group[0]] < 0 ? DOTS : sparse ? dashOf(head, seen) : [];
    return { kind: 'lines', points, opacities, widths, stroke: colorOf(head), dash };
  });
}

// Beside each key what it gets from the queries together; beside each query what it gives to the
// chosen key.
export function strips(
  it: Plan,
  asked: number[] | null,
  answered: number[] | null,
  choices: Choices,
): Mark[] {
  const { seen, shown, columns, top, row, cell } = it;
  if (!cell) return [];
  const marks: Mark[] = [];
  const cells = (column: Column, values: Float32Array[], most: number): void => {
    values.forEach((row_, i) =>
      row_.forEach((value, place) => {
        const strength = shade(Math.abs(value) / most, choices.scale);
        if (!(strength > 0.02)) return;
        marks.push({
          kind: 'rect',
          x: column.strip + i * cell,
          y: top + place * row + 1,
          w: cell - 1,
          h: row - 2,
          fill: colorOf(shown[i].head),
          opacity: strength,
        });
        if (value < 0) {
          const y = top + (place + 0.5) * row;
          marks.push({
            kind: 'line',
            x1: column.strip + i * cell,
            y1: y,
            x2: column.strip + (i + 1) * cell - 1,
            y2: y,
            stroke: 'ink',
            width: 1,
            opacity: 1,
          });
        }
      }),
    );
  };
  if (answered) {
    const [key] = answered;
    const given = shown.map(({ cell: weight }) =>
      Float32Array.from(seen.queries, (_, q) => (asked && !asked.includes(q) ? 0 : weight(q, key))),
    );
    cells(
      columns[0],
      given,
      Math.max(1e-30, ...given.map((each) => each.reduce((m, x) => Math.max(m, Math.abs(x)), 0))),
    );
  } else {
    const { sums, most } = received(shown, seen.keys.length, asked, seen.queries.length);
    if (most > 0) cells(columns[1], sums, most);
  }
  return marks;
}

export function labels(
  it: Plan,
  column: Column,
  chosen: number[] | null,
  choices: Choices,
): Mark[] {
  const { seen, top, row, size } = it;
  const picked = new Set(chosen ?? []);
  const hidden = column.side === 'right' ? seen.hidden : [];
  return column.items.flatMap((item, i): Mark[] => {
    const left = column.side === 'left';
    const x = left ? column.label - column.width : column.label;
    const back = found(item.text, choices.search) ? 'found' : picked.has(i) ? 'card' : null;
    const box: Mark[] = back
      ? [{ kind: 'rect', x, y: top + i * row, w: column.width, h: row, fill: back, radius: 3 }]
      : [];
    const bar: Mark[] = picked.has(i)
      ? [
          {
            kind: 'rect',
            x: left ? x : x + column.width - 3,
            y: top + i * row,
            w: 3,
            h: row,
            fill: 'accent',
          },
        ]
      : [];
    return [
      ...box,
      ...bar,
      {
        kind: 'text',
        x: left ? column.label - 4 : column.label + 4,
        y: top + (i + 0.5) * row + size * 0.35,
        size,
        text: short(item.text),
        anchor: left ? 'end' : 'start',
        bold: picked.has(i),
        limit: column.width - 8,
        fill: item.special || hidden[i] ? 'dim' : 'ink',
      },
    ];
  });
}
