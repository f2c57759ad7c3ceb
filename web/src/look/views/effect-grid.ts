// All heads as a grid of layers and heads, colored by their effect; and the largest effects as a list.

import type { Side } from '../capture-format';
import { headName, layerName } from '../names';
import type { Frame, Mark, Target } from '../view';
import {
  afterAblation, distinctPercents, formatEffect, rankedEffects, type ChosenTarget, type HeadEffect,
} from './effect-data';
import { layerTitle, lineMark, paragraph, rectMark, textMark } from './marks';

export interface Section {
  marks: Mark[];
  targets: Target[];
  height: number;
}

export interface EffectScene {
  frame: Frame;
  side: Side;
  target: ChosenTarget;
  heads: HeadEffect[];
  isLive: boolean; // clicks switch heads off
}

export const SECTION_TITLE = 30; // height of the title of a section

export const sectionTitle = (x: number, y: number, text: string): Mark => (
  textMark(x, y + 14, text, 14, { bold: true }));

const FONT_SIZE = 11;
const WIDE_CELL = 58; // pixels that a pattern's name needs
const NUMBER_CELL = 36;
const STRONG = 0.55; // darker cells need light text

export function gridSection(scene: EffectScene, x: number, y: number, w: number): Section {
  const { side, heads, frame: { measure } } = scene;
  const columns = Math.max(...side.layers.map(({ heads: all }) => all.length));
  const names = side.layers.map((_, layer) => layerName(side, layer));
  const label = Math.min(w * 0.25, Math.max(...names.map((name) => measure(name, FONT_SIZE))) + 10);
  const cell = Math.min(110, (w - label) / columns);
  const row = cell >= WIDE_CELL ? 34 : cell >= NUMBER_CELL ? 24 : 18;
  const legend = paragraph(legendText(scene), x, y + SECTION_TITLE - 8, w, FONT_SIZE, measure);
  const top = y + SECTION_TITLE + legend.height + 18;
  const largest = Math.max(...heads.map(({ effect }) => Math.abs(effect ?? 0)), 1e-12);
  const values = new Float32Array(columns * side.layers.length).fill(NaN);
  const marks: Mark[] = [sectionTitle(x, y, 'Effect of each head'), ...legend.marks];
  for (let head = 0; head < columns && cell >= 14; head += 1)
    marks.push(textMark(x + label + (head + 0.5) * cell, top - 5,
      headName(side.layers[0], head), FONT_SIZE, { anchor: 'middle', fill: 'dim', limit: cell }));
  for (const { layer, head, effect } of heads)
    values[layer * columns + head] = effect === null ? NaN : effect / largest;
  marks.push({ kind: 'raster', x: x + label, y: top, w: cell * columns, h: row * names.length,
    rows: names.length, columns, values, signed: true, noSigns: cell >= NUMBER_CELL });
  names.forEach((name, layer) => marks.push(textMark(x, top + (layer + 0.5) * row + 4, name,
    FONT_SIZE, { fill: 'dim', limit: label - 6 })));
  const targets: Target[] = heads.map((each) => {
    const box = { x: x + label + each.head * cell, y: top + each.layer * row, w: cell, h: row };
    marks.push(...cellMarks(scene, each, box, each.effect === null ? 0 : each.effect / largest));
    return { ...box, ...headTarget(scene, each, 'grid') };
  });
  return { marks, targets, height: top + row * names.length + 8 - y };
}

function legendText({ isLive, side }: EffectScene): string {
  const colors = side.effects === null ? 'Rows are layers, columns are heads.'
    : 'Rows are layers, columns are heads. Orange: without the head the token is less likely, so '
      + 'the head supports it. Blue: more likely. The number is the change of the log-probability.';
  return `${colors} ${isLive ? 'Click a head to switch it off.' : 'Click a head to see its attention.'}`;
}

type Box = { x: number; y: number; w: number; h: number };

function cellMarks(scene: EffectScene, head: HeadEffect, box: Box, strength: number): Mark[] {
  const { x, y, w, h } = box;
  const marks: Mark[] = [rectMark(x, y, w, h, { stroke: 'rule' })];
  const fill = Math.abs(strength) > STRONG ? 'page' : 'ink';
  const center = { anchor: 'middle', limit: w - 4, fill } as const;
  const isOff = scene.frame.choices.off.includes(head.index);
  if (w >= NUMBER_CELL && !isOff) {
    const text = head.effect === null ? '' : formatEffect(head.effect);
    const twoLines = h >= 30;
    marks.push(textMark(x + w / 2, twoLines ? y + 14 : y + h / 2 + 4, text, FONT_SIZE, center));
    if (twoLines)
      marks.push(textMark(x + w / 2, y + 27, head.pattern, 10,
        { ...center, fill: Math.abs(strength) > STRONG ? 'page' : 'dim' }));
  }
  if (isOff) {
    marks.push(rectMark(x + 1, y + 1, w - 2, h - 2, { fill: 'page', opacity: 0.7 }),
      rectMark(x + 1, y + 1, w - 3, h - 3, { stroke: 'warn' }),
      lineMark(x + 3, y + 3, x + w - 3, y + h - 3, 'warn', { width: 2 }),
      textMark(x + w / 2, y + h / 2 + 4, w >= 24 ? 'off' : '', FONT_SIZE,
        { anchor: 'middle', bold: true, fill: 'warn' }));
  }
  return marks;
}

function headTarget(scene: EffectScene, head: HeadEffect, where: string): Omit<Target, keyof Box> {
  const { side, target, isLive, frame: { choices } } = scene;
  const { effects } = side;
  const title = `${layerTitle(side, head.layer)}, head ${headName(side.layers[head.layer], head.head)}`;
  const isOff = choices.off.includes(head.index);
  const lines = [`${title}: ${head.pattern || 'no pattern stands out'}`];
  if (effects && head.effect !== null) {
    const before = effects.targets[target.index].probability;
    lines.push(`Without it: log-probability ${formatEffect(head.effect)}, probability ${
      distinctPercents(before, afterAblation(effects, target, head.effect)).join(' → ')}`);
  } else lines.push('Its effect was not computed');
  if (isLive) lines.push(isOff ? 'Off. Click to switch it on' : 'Click to switch it off');
  const toggled = isOff ? choices.off.filter((each) => each !== head.index)
    : [...choices.off, head.index].sort((one, other) => one - other);
  return {
    label: lines.join('. '), key: `effect/${where}/${head.index}`, tooltip: () => lines,
    pick: isLive ? { off: toggled } : { view: 'heads', layer: head.layer, heads: [head.head],
      mean: false, key: null, ...(target.position !== null
        && side.layers[head.layer].queries === effects?.sequence ? { queries: [target.position] } : {}) },
  };
}

const LIST_LENGTH = 8;
const LIST_ROW = 22;

export function listSection(scene: EffectScene, x: number, y: number, w: number): Section {
  const listed = rankedEffects(scene.heads).slice(0, LIST_LENGTH);
  if (!listed.length) return { marks: [], targets: [], height: 0 };
  const [nameWidth, numberWidth] = [46, 52];
  const bar = Math.min(140, w * 0.25);
  const label = x + nameWidth + bar + numberWidth;
  const largest = Math.max(Math.abs(listed[0].effect as number), 1e-12);
  const marks: Mark[] = [sectionTitle(x, y, 'Largest effects')];
  const targets = listed.map((head, i): Target => {
    const top = y + SECTION_TITLE + i * LIST_ROW;
    const effect = head.effect as number;
    const text = head.pattern || 'no pattern';
    marks.push(
      textMark(x, top + 13, head.name, 12, { bold: true, limit: nameWidth - 4 }),
      rectMark(x + nameWidth, top + 4, Math.max(1, (bar * Math.abs(effect)) / largest), 11,
        { fill: effect < 0 ? 's1' : 's0' }),
      textMark(x + nameWidth + bar + 6, top + 13, formatEffect(effect), 12, { limit: numberWidth }),
      textMark(label + 6, top + 13, text, 12, { fill: 'dim', limit: Math.max(20, x + w - label - 6) }));
    return { x, y: top, w, h: LIST_ROW - 2, ...headTarget(scene, head, 'list') };
  });
  return { marks, targets, height: SECTION_TITLE + listed.length * LIST_ROW + 10 };
}
