// Marks of the matrix: labels, what was chosen, and the legend.

import type { Choices } from '../choices';
import { layerTitle } from '../names';
import { places, shades, type Item } from '../prepare';
import { found, number, short } from '../../shared/text';
import type { Frame, Mark } from '../view';
import { LABEL, PAD, TITLE, type Plan } from './matrix-layout';

export function title({ seen, shown }: Plan, frame: Frame): Mark[] {
  const side = frame.opened.header.sides[frame.choices.side];
  const text = [`${layerTitle(side, frame.choices.layer)}, ${shown.name}`, ...seen.changed].join(
    ' · ',
  );
  return [
    { kind: 'text', x: PAD, y: 16, size: 13, bold: true, text, limit: frame.width - 2 * PAD },
  ];
}

// Kept, so that the painter knows what it has painted before.
const colored = new WeakMap<Float32Array, Map<string, Float32Array>>();

export function colors(
  { seen, shown, full, window, rows, columns }: Plan,
  scale: Choices['scale'],
): Float32Array {
  let known = colored.get(shown.values);
  if (!known) colored.set(shown.values, (known = new Map()));
  const key = `${scale} ${window.join(' ')}`;
  const before = known.get(key);
  if (before) return before;
  const part = new Float32Array(rows * columns);
  for (let row = 0; row < rows; row += 1) {
    const start = (window[0] + row) * seen.keys.length + window[2];
    part.set(shown.values.subarray(start, start + columns), row * columns);
  }
  const fresh = shades(part, full, scale);
  if (known.size > 8) known.clear();
  known.set(key, fresh);
  return fresh;
}

export function labels(it: Plan, frame: Frame): Mark[] {
  const { seen, x, y, cell, window } = it;
  const step = Math.max(1, Math.ceil(LABEL / cell));
  const { search } = frame.choices;
  const marks: Mark[] = [];
  const size = Math.min(12, Math.max(10, cell - 2));
  const add = (item: Item, place: number, row: boolean): void => {
    const middle = (place + 0.5) * cell;
    const hit = found(item.text, search);
    if (place % step !== 0 && !hit) return;
    const fill = item.special ? 'dim' : 'ink';
    if (hit) {
      marks.push(
        row
          ? {
              kind: 'rect',
              x: PAD,
              y: y + place * cell,
              w: x - PAD - 2,
              h: Math.max(2, cell),
              fill: 'found',
            }
          : {
              kind: 'rect',
              x: x + place * cell,
              y: TITLE,
              w: Math.max(2, cell),
              h: y - TITLE - 2,
              fill: 'found',
            },
      );
      if (place % step !== 0) return;
    }
    marks.push(
      row
        ? {
            kind: 'text',
            x: x - 5,
            y: y + middle + size * 0.35,
            size,
            text: short(item.text),
            anchor: 'end',
            limit: x - PAD - 6,
            fill,
          }
        : {
            kind: 'text',
            x: x + middle + size * 0.35,
            y: y - 5,
            size,
            text: short(item.text),
            rotate: -90,
            limit: y - TITLE - 6,
            fill,
          },
    );
  };
  for (let q = window[0]; q <= window[1]; q += 1) add(seen.queries[q], q - window[0], true);
  for (let k = window[2]; k <= window[3]; k += 1) add(seen.keys[k], k - window[2], false);
  return marks;
}

// Frames around the chosen queries' rows and the chosen key's column.
export function chosen(
  { seen, x, y, cell, window, rows, columns }: Plan,
  choices: Choices,
): Mark[] {
  const frame = (left: number, top: number, w: number, h: number): Mark => ({
    kind: 'rect',
    x: left,
    y: top,
    w,
    h,
    stroke: 'accent',
  });
  const rowsOf = choices.queries.length > 200 ? [] : places(seen.queries, choices.queries);
  const keysOf = choices.key === null ? [] : places(seen.keys, [choices.key]);
  return [
    ...rowsOf
      .filter((q) => q >= window[0] && q <= window[1])
      .map((q) => frame(x, y + (q - window[0]) * cell, cell * columns, cell)),
    ...keysOf
      .filter((k) => k >= window[2] && k <= window[3])
      .map((k) => frame(x + (k - window[2]) * cell, y, cell, cell * rows)),
  ];
}

export function legend(
  { seen, most, full, x }: Plan,
  frame: Frame,
  y: number,
  width: number,
): Mark[] {
  const { choices } = frame;
  const size = Math.max(90, width);
  const bar = Float32Array.from({ length: 64 }, (_, i) => (seen.signed ? i / 31.5 - 1 : i / 63));
  const half = { linear: 0.5, sqrt: 0.25, log: 0.01 }[choices.scale];
  const name = seen.signed ? 'weight; − marks negative ones' : 'weight';
  const top = `${full < most ? '≥ ' : ''}${number(full, 3)}`;
  const ticks: [number, string][] = seen.signed
    ? [
        [0, `${full < most ? '≤ ' : ''}${number(-full, 3)}`],
        [0.5, '0'],
        [1, top],
      ]
    : [
        [0, choices.scale === 'log' ? `≤ ${number(full * 1e-4)}` : '0'],
        [0.5, number(full * half, 3)],
        [1, top],
      ];
  return [
    { kind: 'raster', x, y, w: size, h: 8, rows: 1, columns: 64, values: bar, signed: seen.signed },
    { kind: 'rect', x: x - 0.5, y: y - 0.5, w: size + 1, h: 9, stroke: 'rule' },
    ...ticks.map(([share, text], i): Mark => ({
      kind: 'text',
      x: x + share * size,
      y: y + 21,
      size: 11,
      fill: 'dim',
      text,
      anchor: (['start', 'middle', 'end'] as const)[i],
    })),
    ...(frame.measure(name, 11) > frame.width - x - size - 10
      ? []
      : [{ kind: 'text', x: x + size + 10, y: y + 8, size: 11, fill: 'dim', text: name } as Mark]),
  ];
}
