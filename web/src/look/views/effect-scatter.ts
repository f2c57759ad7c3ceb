// Does attention explain? Each token's weight against what cutting the attention to it changes.

import type { Effects, KeyEffect } from '../capture-format';
import { quoted, short, wholePercent } from '../../shared/readable-text';
import type { Mark, Target } from '../view';
import { explain, formatEffect } from './effect-data';
import { SECTION_TITLE, sectionTitle, type EffectScene, type Section } from './effect-grid';
import { lineMark, paragraph, rectMark, textMark } from './marks';

const HEIGHT = 220; // of the plot
const LEFT = 46; // for the numbers of the vertical axis
const DOT = 7;
const NAMED = 4; // tokens whose names are written

export function scatterSection(scene: EffectScene, x: number, y: number, w: number): Section {
  const { side, frame: { measure } } = scene;
  const effects = side.effects as Effects;
  const points = effects.keys?.points ?? [];
  if (!points.length) return { marks: [], targets: [], height: 0 };
  const answer = paragraph(explain(effects), x, y + SECTION_TITLE - 8, w, 12, measure, { fill: 'ink' });
  const top = y + SECTION_TITLE + answer.height + 4;
  const width = Math.min(w, 560) - LEFT - 8;
  const maxWeight = Math.max(...points.map(({ weight }) => weight), 1e-12);
  const values = points.map(({ effect }) => effect);
  const [low, high] = [Math.min(0, ...values), Math.max(0, ...values)];
  const span = high - low || 1;
  const place = ({ weight, effect }: KeyEffect): [number, number] => [
    x + LEFT + (weight / maxWeight) * (width - DOT),
    top + DOT + ((high - effect) / span) * (HEIGHT - 2 * DOT),
  ];
  const zero = place({ sequence: 0, position: 0, weight: 0, effect: 0 })[1];
  const axis = { fill: 'dim', anchor: 'end' } as const;
  const marks: Mark[] = [
    sectionTitle(x, y, 'Does attention explain?'), ...answer.marks,
    lineMark(x + LEFT, top, x + LEFT, top + HEIGHT, 'rule'),
    lineMark(x + LEFT, zero, x + LEFT + width, zero, 'dim', { dash: [3, 3] }),
    textMark(x + LEFT - 6, zero + 4, '0', 11, axis),
    ...(zero - top > 20 ? [textMark(x + LEFT - 6, top + DOT + 4, formatEffect(high), 11, axis)] : []),
    ...(top + HEIGHT - zero > 20
      ? [textMark(x + LEFT - 6, top + HEIGHT - DOT + 4, formatEffect(low), 11, axis)] : []),
    textMark(x + LEFT, top + HEIGHT + 14, '0%', 11, { fill: 'dim' }),
    textMark(x + LEFT + width, top + HEIGHT + 14, wholePercent(maxWeight), 11, axis),
  ];
  const about = paragraph('Across: mean attention weight on a token, from the measured position. Up: '
    + 'change of the log-probability when attention to that token is cut in all heads.',
    x, top + HEIGHT + 18, w, 11, measure);
  marks.push(...about.marks);
  const targets = points.map((point, i): Target => {
    const [px, py] = place(point);
    marks.push(rectMark(px - DOT / 2, py - DOT / 2, DOT, DOT,
      { fill: point.effect < 0 ? 's1' : 's0', radius: DOT / 2, opacity: 0.85 }));
    const token = side.sequences[point.sequence].tokens[point.position].text;
    const lines = [`${quoted(token)}, token ${point.position}${sequenceName(scene, point)}`,
      `Weight ${wholePercent(point.weight)}, log-probability ${formatEffect(point.effect)} without it`];
    return { x: px - DOT, y: py - DOT, w: 2 * DOT, h: 2 * DOT, label: lines.join(': '),
      key: `effect/key/${i}`, tooltip: () => lines };
  });
  marks.push(...nameMarks(scene, points, place, x + LEFT + width));
  return { marks, targets, height: top + HEIGHT + 18 + about.height + 14 - y };
}

const sequenceName = ({ side }: EffectScene, point: KeyEffect): string => (
  side.sequences.length > 1 ? ` of ${short(side.sequences[point.sequence].name)}` : '');

// Names of the tokens with the largest effects; those too near to another name are left out.
function nameMarks(scene: EffectScene, points: KeyEffect[],
  place: (point: KeyEffect) => [number, number], right: number): Mark[] {
  const { side, frame: { measure } } = scene;
  const marks: Mark[] = [];
  const taken: [number, number, number][] = [];
  const ranked = [...points].sort((one, other) => Math.abs(other.effect) - Math.abs(one.effect));
  for (const point of ranked.slice(0, NAMED)) {
    const text = short(side.sequences[point.sequence].tokens[point.position].text, 14);
    const [px, py] = place(point);
    const size = measure(text, 11);
    const left = px + DOT + size + 4 > right ? px - DOT - size : px + DOT;
    const overlaps = taken.some(([at, y, w]) => Math.abs(y - py) < 13 && left < at + w && at < left + size);
    if (overlaps) continue;
    taken.push([left, py, size]);
    marks.push(textMark(left, py + 4, text, 11));
  }
  return marks;
}
