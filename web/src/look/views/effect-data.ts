// The numbers of the effect view: which target is chosen, and what changes it.

import type { Capture } from '../capture';
import type { Effects, Side } from '../capture-format';
import type { Choices } from '../choices';
import { headName, layerName } from '../names';
import { count, inCell, number, quoted, wholePercent } from '../../shared/readable-text';
import { countedHeads } from '../switch-heads';

// The sequence whose next tokens are predicted; null for a class.
export const targetSequence = ({ effects, next }: Side): number | null => (
  effects ? effects.sequence : next?.sequence ?? null);

export interface ChosenTarget {
  index: number; // in effects.targets
  position: number | null; // in its sequence; null for a class, or for what the model chooses
  isMeasured: boolean; // whether its lens and its weights were measured in detail
}

// The selected query, if it is one of the tokens that have a target; else the measured one.
export function chosenTarget(side: Side, choices: Choices): ChosenTarget {
  const { effects } = side;
  const sequence = targetSequence(side);
  const query = choices.queries.at(-1);
  const isTarget = query !== undefined && sequence !== null
    && side.layers[choices.layer]?.queries === sequence;
  if (!effects) return { index: -1, position: isTarget ? query : null, isMeasured: false };
  const index = isTarget && query < effects.targets.length ? query : effects.measured;
  return { index, position: effects.kind === 'classes' ? null : index,
    isMeasured: index === effects.measured };
}

export interface HeadEffect {
  index: number; // counted through all layers
  layer: number;
  head: number;
  name: string; // "5.3"
  pattern: string;
  effect: number | null; // change of the target's log-probability without the head
}

export function headEffects(capture: Capture, side: Side, target: ChosenTarget): HeadEffect[] {
  const { effects } = side;
  return countedHeads(side).map(({ layer, head }, index) => {
    const ref = effects?.heads[layer];
    const info = side.layers[layer];
    return {
      index, layer, head, name: `${layerName(side, layer)}.${headName(info, head)}`,
      pattern: inCell(info.patterns[head]?.label ?? ''),
      effect: ref ? capture.slice(ref, head)[target.index] : null,
    };
  });
}

export const rankedEffects = (heads: HeadEffect[]): HeadEffect[] => heads
  .filter(({ effect }) => effect !== null)
  .sort((one, other) => Math.abs(other.effect as number) - Math.abs(one.effect as number));

// Three decimals at most; what would be 0 there is shown as 0.
export const formatEffect = (effect: number): string => (
  Math.abs(effect) < 0.0005 ? '0'
    : (effect > 0 ? '+' : '') + number(effect, Math.abs(effect) < 0.0995 ? 3 : 2));

export const sharePercent = (share: number): string => (
  share < 0.0005 ? '<0.1%' : wholePercent(share));

// "“Paris” after “of”", "“cat” at token 3", or "class “nine”"
export function targetName(side: Side, effects: Effects, target: ChosenTarget): string {
  const word = quoted(effects.targets[target.index].token, 20);
  if (effects.sequence === null || target.position === null) return `class ${word}`;
  const { tokens } = side.sequences[effects.sequence];
  return effects.kind === 'masked' ? `${word} at token ${target.position}`
    : `${word} after ${quoted(tokens[target.position].text, 16)}`;
}

export function afterAblation(effects: Effects, target: ChosenTarget, effect: number): number {
  return Math.min(1, effects.targets[target.index].probability * Math.exp(effect));
}

// One sentence: the head without which the target changes most.
export function finding(capture: Capture, side: Side, choices: Choices): string {
  const { effects } = side;
  if (!effects) return 'No effects were computed; switch heads off to see the prediction change.';
  const target = chosenTarget(side, choices);
  const ranked = rankedEffects(headEffects(capture, side, target));
  const name = targetName(side, effects, target);
  if (!ranked.length) return `The effects of heads on ${name} were not computed.`;
  const [{ layer, head, pattern, effect }] = ranked;
  const before = effects.targets[target.index].probability;
  const after = afterAblation(effects, target, effect as number);
  const label = pattern ? ` (${pattern})` : '';
  const of = ranked.length > 1 ? ` It is the largest effect of ${count(ranked.length, 'head')}.` : '';
  const [from, to] = distinctPercents(before, after);
  const change = from === to ? `stays at ${from}` : `${after < before ? 'falls' : 'rises'} from ${from} to ${to}`;
  return `Without layer ${layerName(side, layer)}, head ${headName(side.layers[layer], head)}${label}, `
    + `the probability of ${name} ${change}.${of}`;
}

// Two percentages with as many digits as it takes to tell them apart, up to two decimals.
export function distinctPercents(one: number, other: number): [string, string] {
  const formats = [wholePercent, (value: number): string => `${(100 * value).toFixed(1)}%`,
    (value: number): string => `${(100 * value).toFixed(2)}%`];
  const format = formats.find((each) => each(one) !== each(other)) ?? wholePercent;
  return [format(one), format(other)];
}

// "Does attention explain?" in one sentence. Chance is the 95% range of a correlation of random ranks.
export function explain(effects: Effects): string {
  const { keys } = effects;
  if (!keys) return '';
  const { points, correlation, all_keys: all } = keys;
  const tokens = points.length < all ? `${points.length} of ${count(all, 'token')}`
    : count(points.length, 'token');
  if (correlation === null) return `Weights or effects are all equal (${tokens}).`;
  const chance = points.length > 3 ? 1.96 / Math.sqrt(points.length - 1) : 1;
  const verdict = Math.abs(correlation) <= chance ? 'Not more than chance'
    : correlation < 0 ? 'No, the contrary'
      : correlation >= 0.7 ? 'Mostly' : 'Partly';
  const range = chance < 1 ? `; chance alone reaches ±${number(chance, 2)}` : '';
  return `${verdict}: the rank correlation of a token’s weight and the size of its effect is `
    + `${number(correlation, 2)} (${tokens}${range}).`;
}

const HOW = '“Effects of heads” in the studio, attnlab look MODEL --text TEXT --effects, or '
  + 'attnlab.look(model, text, effects=True)';

// What the capture lacks, and how to compute it.
export function missingParts(side: Side): { name: string; how: string }[] {
  const { effects } = side;
  if (!effects) return [{ name: 'The effects of heads', how: `compute them with ${HOW}.` }];
  const reason = (part: keyof Effects['reasons']): string => inCell(effects.reasons[part] ?? '');
  const missing: { name: string; how: string }[] = [];
  const unmeasured = side.layers.filter((_, i) => effects.heads[i] === null).length;
  if (unmeasured > 0)
    missing.push({ name: `The effects of heads in ${count(unmeasured, 'layer')}`,
      how: reason('heads') || 'these layers do not allow it.' });
  if (!effects.keys) missing.push({ name: 'Weight against effect', how: reason('keys') });
  if (!effects.lens) missing.push({ name: 'The logit lens', how: reason('lens') });
  if (!effects.patching)
    missing.push({ name: 'The patching map', how: reason('patching') || 'it needs a second text of '
      + 'equally many tokens with another answer: add --corrupted TEXT to --effects.' });
  return missing;
}
