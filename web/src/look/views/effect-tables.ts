// The logit lens as a table over layers, and the patching map.

import type { Effects } from '../capture-format';
import { inCell, number, quoted, short, wholePercent } from '../../shared/readable-text';
import type { Mark, Target } from '../view';
import { sharePercent } from './effect-data';
import { SECTION_TITLE, sectionTitle, type EffectScene, type Section } from './effect-grid';
import { paragraph, rectMark, textMark } from './marks';

const ROW = 19;
const NOTHING: Section = { marks: [], targets: [], height: 0 };

// For the measured target, the likeliest tokens of each layer; for others, the likeliest one.
export function lensSection(scene: EffectScene, x: number, y: number, w: number): Section {
  const { side, target, frame: { capture, measure } } = scene;
  const effects = side.effects as Effects;
  const { lens } = effects;
  if (!lens) return NOTHING;
  const columns = effects.targets.length;
  const chosen = capture.values(lens.target_probability);
  const best = capture.values(lens.best_probability);
  const word = quoted(effects.targets[target.index].token, 14);
  const about = paragraph(`What the model would predict if it stopped after each layer, likeliest `
    + `first. The bar is the probability of ${word}.`, x, y + SECTION_TITLE - 8, w, 11, measure);
  const top = y + SECTION_TITLE + about.height + 4;
  const marks: Mark[] = [sectionTitle(x, y, 'Logit lens'), ...about.marks];
  const [nameWidth, bar] = [Math.min(76, w * 0.22), Math.min(60, w * 0.14)];
  const words = x + nameWidth + bar + 44;
  const targets = lens.layers.map((name, row): Target => {
    const at = top + row * ROW;
    const cell = row * columns + target.index;
    const candidates: [string, number][] = target.isMeasured ? lens.top[row]
      : [[lens.vocabulary[lens.best[row][target.index]], best[cell]]];
    marks.push(
      textMark(x, at + 13, inCell(name), 11, { fill: 'dim', limit: nameWidth - 6 }),
      rectMark(x + nameWidth, at + 4, bar, 10, { fill: 'card' }),
      rectMark(x + nameWidth, at + 4, bar * Math.min(1, chosen[cell]), 10, { fill: 's0' }),
      textMark(words - 6, at + 13, sharePercent(chosen[cell]), 11, { anchor: 'end' }),
      ...wordMarks(candidates, effects.targets[target.index].token, words, at, x + w, measure));
    const lines = [`${inCell(name)}: ${word} ${sharePercent(chosen[cell])}`,
      ...candidates.map(([text, p]) => `${quoted(text)} ${sharePercent(p)}`)];
    return { x, y: at, w, h: ROW - 1, label: lines.join(', '), key: `effect/lens/${row}`,
      tooltip: () => lines };
  });
  return { marks, targets, height: top + lens.layers.length * ROW + 14 - y };
}

function wordMarks(candidates: [string, number][], target: string, x: number, y: number,
  right: number, measure: EffectScene['frame']['measure']): Mark[] {
  const marks: Mark[] = [];
  let left = x;
  for (const [text, probability] of candidates) {
    const label = `${short(text, 12)} ${sharePercent(probability)}`;
    const width = measure(label, 11) * (text === target ? 1.1 : 1) + 8; // bold is wider
    if (left + width > right && left > x) break;
    marks.push(rectMark(left, y + 1, Math.min(width, right - left) - 2, ROW - 3,
      { fill: 's0', opacity: 0.06 + 0.4 * Math.min(1, probability), radius: 2 }),
    textMark(left + 4, y + 13, label, 11, { bold: text === target, limit: Math.max(8, right - left - 6) }));
    left += width + 2;
  }
  return marks;
}

// Rows are layers, columns are tokens of the corrupted text.
export function patchingSection(scene: EffectScene, x: number, y: number, w: number): Section {
  const { side, frame: { capture, measure } } = scene;
  const patching = side.effects?.patching;
  if (!patching) return NOTHING;
  const restored = capture.values(patching.restored);
  const [rows, columns] = [patching.layers.length, patching.clean_tokens.length];
  const about = paragraph(`The corrupted text is read with the residual stream of one layer and one `
    + `token from the clean text. Blue: the part of the ${inCell(patching.description)} that this `
    + `restores, from ${number(patching.corrupted, 2)} (corrupted) to ${number(patching.clean, 2)} (clean).`,
  x, y + SECTION_TITLE - 8, w, 11, measure);
  const left = x + Math.min(76, w * 0.22);
  const cell = Math.min(56, (x + w - left) / columns);
  const row = Math.max(10, Math.min(20, 480 / rows));
  const labels = cell >= 30 ? 30 : 68; // upright labels if there is room
  const top = y + SECTION_TITLE + about.height + labels;
  const marks: Mark[] = [sectionTitle(x, y, 'Patching map'), ...about.marks];
  patching.corrupted_tokens.forEach((token, i) => {
    const differs = token !== patching.clean_tokens[i];
    const center = left + (i + 0.5) * cell;
    if (cell < 9 && !differs) return;
    marks.push(cell >= 30
      ? textMark(center, top - 6, short(token, 8), 11,
        { anchor: 'middle', bold: differs, limit: cell - 2, fill: differs ? 'warn' : 'ink' })
      : textMark(center + 4, top - 6, short(token, 10), 11,
        { rotate: -90, bold: differs, limit: labels - 8, fill: differs ? 'warn' : 'ink' }));
  });
  patching.layers.forEach((name, i) => row >= 12 && marks.push(textMark(x, top + (i + 0.5) * row + 4,
    inCell(name), 11, { fill: 'dim', limit: left - x - 6 })));
  marks.push({ kind: 'raster', x: left, y: top, w: cell * columns, h: row * rows, rows, columns,
    values: restored.map((value) => Math.max(-1, Math.min(1, value))), signed: true },
  rectMark(left, top, cell * columns, row * rows, { stroke: 'rule' }));
  const targets = Array.from(restored, (value, i): Target => {
    const [layer, token] = [Math.floor(i / columns), i % columns];
    const [clean, corrupted] = [patching.clean_tokens[token], patching.corrupted_tokens[token]];
    const words = clean === corrupted ? quoted(clean) : `${quoted(clean)} instead of ${quoted(corrupted)}`;
    const lines = [`${inCell(patching.layers[layer])}, token ${token}: ${words}`,
      `Restores ${wholePercent(value)} of the difference`];
    return { x: left + token * cell, y: top + layer * row, w: cell, h: row, label: lines.join('. '),
      key: `effect/patch/${i}`, tooltip: () => lines };
  });
  return { marks, targets, height: top + row * rows + 14 - y };
}
