// The effect view: what changes the chosen next token. Heads, attention to tokens, layers, patches.

import type { Capture } from '../capture';
import type { Effects } from '../capture-format';
import type { Choices } from '../choices';
import { headName, sideName } from '../names';
import { toItems } from '../prepare-weights';
import { quoted, wholePercent } from '../../shared/readable-text';
import type { Table } from '../../shared/table-type';
import type { Drawing, Frame, Mark, Target, View } from '../view';
import {
  chosenTarget, explain, finding, headEffects, missingParts, targetName, targetSequence,
} from './effect-data';
import { gridSection, listSection, type EffectScene, type Section } from './effect-grid';
import { scatterSection } from './effect-scatter';
import { lensSection, patchingSection } from './effect-tables';
import { paragraph, textMark } from './marks';
import { layOutText, shadedTextMarks } from './shaded-text';

const PADDING = 12;
const GAP = 36; // pixels between columns
const WIDE_PIXELS = 900; // wider pages have two columns

const isLive = (capture: Capture, choices: Choices): boolean => (
  capture.switchHeads !== undefined && choices.side === 0);

function missingReason(capture: Capture, choices: Choices): string | null {
  const side = capture.header.sides[choices.side];
  if (side.effects || isLive(capture, choices)) return null;
  if (choices.side > 0)
    return `Effects are computed for the first side only, not for ${sideName(side)}.`;
  const [{ name, how }] = missingParts(side);
  return `${name} were not computed; ${how}`;
}

function makeScene(frame: Frame): EffectScene {
  const { capture, choices } = frame;
  const side = capture.header.sides[choices.side];
  const target = chosenTarget(side, choices);
  return { frame, side, target, heads: headEffects(capture, side, target),
    isLive: isLive(capture, choices) };
}

function draw(frame: Frame): Drawing {
  const scene = makeScene(frame);
  const { capture, choices, width } = frame;
  const inner = width - 2 * PADDING;
  const text = textSection(scene, PADDING, PADDING, inner);
  const top = PADDING + text.height;
  const wide = width >= WIDE_PIXELS;
  const left = wide ? Math.round((inner - GAP) * 0.56) : inner;
  const sections: ((x: number, y: number, w: number) => Section)[][] = [
    [(...at) => gridSection(scene, ...at), (...at) => patchingSection(scene, ...at)],
    scene.side.effects ? [(...at) => listSection(scene, ...at), (...at) => scatter(scene, ...at),
      (...at) => lensSection(scene, ...at)] : [],
    [(...at) => missingSection(scene, ...at)],
  ];
  if (!wide) sections.splice(0, 2, [sections[0][0], ...sections[1], sections[0][1]]);
  const [marks, targets]: [Mark[], Target[]] = [[...text.marks], [...text.targets]];
  const add = (column: (typeof sections)[number], x: number, w: number, start: number): number => (
    column.reduce((y, make) => {
      const section = make(x, y, w);
      marks.push(...section.marks);
      targets.push(...section.targets);
      return y + section.height;
    }, start));
  const ends = [add(sections[0], PADDING, left, top)];
  if (wide) ends.push(add(sections[1], PADDING + left + GAP, inner - left - GAP, top));
  const height = add(sections[sections.length - 1], PADDING, inner, Math.max(...ends)) + PADDING;
  return { width, height, marks, targets, summary: finding(capture, scene.side, choices),
    note: 'One head at a time: effects do not add up, and two heads that do the same have none each.' };
}

const scatter = (scene: EffectScene, x: number, y: number, w: number): Section => (
  scene.target.isMeasured ? scatterSection(scene, x, y, w) : notMeasured(scene, x, y, w));

// Only one target is measured in detail.
function notMeasured({ side, frame: { measure } }: EffectScene, x: number, y: number, w: number): Section {
  const effects = side.effects as Effects;
  if (!effects.keys) return { marks: [], targets: [], height: 0 };
  const target = { index: effects.measured, position: effects.measured, isMeasured: true };
  const text = `Weight against effect was computed for ${targetName(side, effects, target)} only; for `
    + 'another token, add --position NUMBER to --effects.';
  const block = paragraph(text, x, y, w, 12, measure);
  const pick = { queries: [] };
  return { marks: block.marks, height: block.height + 16, targets: [{ x, y, w, h: block.height,
    label: 'Show the measured token', key: 'effect/measured', pick }] };
}

// The tokens: a click chooses whose next token is shown. They are shaded by what cutting the
// attention to them changes.
function textSection(scene: EffectScene, x: number, y: number, w: number): Section {
  const { side, target, frame: { choices, measure } } = scene;
  const { effects } = side;
  const sequence = targetSequence(side);
  if (sequence === null) return { marks: [], targets: [], height: 0 };
  const { tokens } = side.sequences[sequence];
  const items = toItems(side.sequences[sequence], false);
  const values = new Float32Array(items.length).fill(NaN);
  if (target.isMeasured)
    for (const point of effects?.keys?.points ?? [])
      if (point.sequence === sequence) values[point.position] = point.effect;
  const largest = values.reduce((most, each) => Math.max(most, Math.abs(each) || 0), 0);
  const isMasked = effects?.kind === 'masked';
  const title = `Click a token to choose the ${isMasked ? 'token' : 'next token'}.${
    effects?.keys ? ' Shades: what changes if attention to it is cut.' : ''}`;
  const heading = paragraph(title, x, y, w, 11, measure);
  const layout = layOutText(items, tokens, x, y + heading.height + 6, w, measure);
  const marks = [...heading.marks, ...shadedTextMarks(layout, items, { values, largest,
    scale: choices.scale, search: '', isSelected: (i) => i === target.position,
    isLater: (i) => !isMasked && i > (target.position ?? items.length) })];
  const layer = side.layers[choices.layer].queries === sequence ? choices.layer
    : side.layers.findIndex(({ queries }) => queries === sequence);
  const targets = layout.boxes.map((box, i): Target => {
    const lines = [`${quoted(tokens[i].text)}, token ${i}`];
    if (effects) {
      const { token, probability } = effects.targets[i];
      lines.push(`${isMasked ? 'Here' : 'Next'}: ${quoted(token)}, ${wholePercent(probability)}`);
    }
    return { ...box, label: lines.join('. '), key: `effect/token/${i}`, tooltip: () => lines,
      ...(layer >= 0 ? { pick: { queries: [i], layer } } : {}) };
  });
  return { marks, targets, height: heading.height + layout.height + 22 };
}

// What was not computed, and how to compute it.
function missingSection({ side, frame: { measure } }: EffectScene, x: number, y: number, w: number): Section {
  const lines = missingParts(side).map(({ name, how }) => `${name}: ${how}`);
  if (!lines.length) return { marks: [], targets: [], height: 0 };
  const marks = [textMark(x, y + 14, 'Not computed', 13, { bold: true })];
  let top = y + 22;
  for (const line of lines) {
    const block = paragraph(line, x, top, w, 12, measure);
    marks.push(...block.marks);
    top += block.height + 2;
  }
  return { marks, targets: [], height: top - y + 8 };
}

// One row for each head, token, layer and patch.
function table(frame: Frame): Table {
  const { capture, choices } = frame;
  const { side, target, heads } = makeScene(frame);
  const { effects } = side;
  const header = ['part', 'layer', 'head', 'pattern', 'token', 'weight', 'probability', 'effect'];
  const rows: Table['rows'] = heads.map(({ layer, head, pattern, effect }) => ['head', layer,
    headName(side.layers[layer], head), pattern, '', '', '', effect ?? 'not computed']);
  if (effects) {
    const { keys, lens, patching } = effects;
    if (target.isMeasured)
      for (const { sequence, position, weight, effect } of keys?.points ?? [])
        rows.push(['attention to a token', '', '', '',
          side.sequences[sequence].tokens[position].text, weight, '', effect]);
    lens?.layers.forEach((name, row) => {
      const cell = row * effects.targets.length + target.index;
      rows.push(['logit lens', name, '', '', lens.vocabulary[lens.best[row][target.index]], '',
        capture.values(lens.best_probability)[cell], '']);
    });
    if (patching)
      capture.values(patching.restored).forEach((value, i) => {
        const columns = patching.clean_tokens.length;
        rows.push(['patch', patching.layers[Math.floor(i / columns)], '', '',
          patching.clean_tokens[i % columns], '', '', value]);
      });
  }
  const name = effects ? targetName(side, effects, target) : 'the next token';
  const answer = effects && target.isMeasured ? ` ${explain(effects)}` : '';
  return { title: `${finding(capture, side, choices)} Effects on ${name}.${answer}`, header, rows };
}

export const effect: View = {
  id: 'effect',
  key: 'o',
  title: 'Effect',
  description: 'What changes the next token: every head, attention to each token, each layer.',
  missingReason,
  needs: (_, choices) => [{ side: choices.side, effects: true }],
  draw,
  table,
  controls: ['side'],
};
