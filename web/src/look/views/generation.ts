// The generation view, token by token: the candidates, the actual token, and the attention for it.
// `choices.step` is the position of the predicted token; the query is the token before it.

import type { Capture } from '../capture';
import type { Choices } from '../choices';
import type { Next, Side } from '../capture-format';
import { sideName } from '../names';
import { toItems, maxAbs, prepareWeights, type Item,
  type PreparedWeights } from '../prepare-weights';
import { count, number, percent, quoted, sensible, whole } from '../../shared/readable-text';
import type { Table } from '../../shared/table-type';
import type { Drawing, Frame, Mark, Need, Target, View } from '../view';
import { candidateRows, nextTokenCandidates, type Candidate } from './next-token-candidates';
import { weightsNeeded } from './heads';
import { meanHead } from './strongest-lines';
import { nearestLayer } from './nearest-layer';
import { layerTitle, paragraph } from './marks';
import { layOutText, shadedTextMarks, type TextLayout } from './shaded-text';
import { timeline } from './token-timeline';

const PADDING = 12;
const GAP = 24;
const WIDE_PIXELS = 860; // wider pages show the probabilities beside the text

interface GenerationScene {
  side: Side;
  next: Next;
  layer: number;
  prepared: PreparedWeights;
  step: number;
  generated: Item[]; // the generated text
  row: Float32Array; // attention weights of the query before the step
  cross: boolean;
}

// Layers whose queries are the generated text.
function generatingLayers(capture: Capture, choices: Choices): number[] {
  const side = capture.header.sides[choices.side];
  return side.layers.flatMap((layer, i) => (layer.queries === side.next?.sequence ? [i] : []));
}

const nearestGeneratingLayer = (capture: Capture, choices: Choices): number => (
  nearestLayer(generatingLayers(capture, choices), choices.layer));

// The first and the last step, and the displayed one: by default the first generated token, or the
// prediction after the text.
export function stepRange(capture: Capture, choices: Choices): [number, number, number] {
  const { next, sequences } = capture.header.sides[choices.side];
  if (!next) return [1, 1, 1];
  const { tokens, prompt } = sequences[next.sequence];
  const step = choices.step ?? prompt ?? tokens.length;
  return [1, tokens.length, Math.max(1, Math.min(step, tokens.length))];
}

function missingReason(capture: Capture, choices: Choices): string | null {
  const side = capture.header.sides[choices.side];
  if (side.next === null) {
    return `${sideName(side)} has no next-token probabilities: this view needs a causal model `
      + '(a decoder, or an encoder-decoder). Generate text with it: attnlab look --generate N.';
  }
  if (side.sequences[side.next.sequence].tokens.length === 0) return 'The text has no tokens.';
  return generatingLayers(capture, choices).length === 0
    ? 'The capture has no layer whose queries are the generated text; capture all layers.' : null;
}

const needs = (capture: Capture, choices: Choices): Need[] => (
  weightsNeeded(choices, nearestGeneratingLayer(capture, choices)));

// Does not merge words: the later tokens of a word are not written yet.
function makeScene(capture: Capture, choices: Choices): GenerationScene {
  const side = capture.header.sides[choices.side];
  const next = side.next as Next; // `missingReason` has checked it
  const layer = nearestGeneratingLayer(capture, choices);
  const prepared = prepareWeights(capture, { ...choices, words: false }, choices.side, layer);
  const [, , step] = stepRange(capture, choices);
  return {
    side, next, layer, prepared, step, generated: toItems(side.sequences[next.sequence], false),
    row: prepared.row(prepared.heads, step - 1),
    cross: prepared.layer.keys !== next.sequence,
  };
}

function draw(frame: Frame): Drawing {
  const { capture, choices, width, measure } = frame;
  const scene = makeScene(capture, choices);
  const { side, next, step, prepared } = scene;
  const inner = width - 2 * PADDING;
  const timelineBlock = timeline({ side, next, step, x: PADDING, y: PADDING, w: inner });
  const top = PADDING + timelineBlock.height + GAP;
  const sideBySide = width >= WIDE_PIXELS;
  const textWidth = sideBySide ? Math.floor(inner * 0.64) : inner;
  const textBlock = makeText(scene, frame, top, textWidth);
  const candidates = nextTokenCandidates(next, side, step);
  const candidateBlock = candidateRows(
    candidates, sideBySide ? PADDING + textWidth + GAP : PADDING, sideBySide ? top
      : top + textBlock.height + GAP,
    sideBySide ? inner - textWidth - GAP : inner, measure, step);
  return {
    width, height: Math.max(top + textBlock.height,
      candidateBlock.y + candidateBlock.height) + PADDING,
    marks: [...timelineBlock.marks, ...textBlock.marks,
      ...candidateBlock.marks],
    targets: [timelineBlock.currentTarget, ...textBlock.targets, ...candidateBlock.targets],
    targetAt: timelineBlock.targetAt,
    summary: summarize(scene, candidates),
    note: prepared.adjustments.length > 0 ? `Displayed: ${prepared.adjustments.join('; ')}.`
      : undefined,
  };
}

interface TextBlock {
  marks: Mark[];
  targets: Target[];
  height: number;
}

// The keys, shaded by attention; with cross-attention, the generated text below them.
function makeText(scene: GenerationScene, frame: Frame, y: number, w: number): TextBlock {
  const { prepared, cross, next } = scene;
  const keysBlock = shadedText(scene, frame, describeAttention(scene), prepared.keys,
    prepared.layer.keys, true, y, w);
  if (!cross) return keysBlock;
  const generatedBlock = shadedText(scene, frame, 'Generated text', scene.generated, next.sequence,
    false, y + keysBlock.height + GAP, w);
  return {
    marks: [...keysBlock.marks, ...generatedBlock.marks],
      targets: [...keysBlock.targets, ...generatedBlock.targets],
    height: keysBlock.height + GAP + generatedBlock.height,
  };
}

function shadedText(
  scene: GenerationScene, { choices, measure }: Frame, title: string, items: Item[],
    sequence: number,
  shaded: boolean, y: number, w: number,
): TextBlock {
  const { row, step, side } = scene;
  const heading = paragraph(title, PADDING, y, w, 12, measure);
  const { tokens } = side.sequences[sequence];
  const layout = layOutText(items, tokens, PADDING, y + heading.height + 6, w, measure);
  const isGenerated = sequence === scene.next.sequence;
  const marks = shadedTextMarks(layout, items, {
    values: shaded ? row : new Float32Array(items.length), largest: maxAbs(row),
    scale: choices.scale, search: choices.search,
    isSelected: (i) => isGenerated && i === step, isLater: (i) => isGenerated && i > step,
  });
  return {
    marks: [...heading.marks, ...marks], height: heading.height + 6 + layout.height,
    targets: items.map((_, i) => tokenTarget(scene, layout, items, i, isGenerated, shaded)),
  };
}

function describeAttention({ prepared, side, layer, step, generated,
  row }: GenerationScene): string {
  const layerAndHead = `${layerTitle(side, layer)}, ${meanHead(prepared).name}`;
  return `Attention of ${quoted(generated[step - 1].text)} (token ${step - 1}), which predicts the next `
    + `token. ${layerAndHead}; the highest bar is ${sensible(maxAbs(row))}.`;
}

function tokenTarget(
  scene: GenerationScene, layout: TextLayout, items: Item[], index: number, isGenerated: boolean,
    shaded: boolean,
): Target {
  const { prepared, row, next, step } = scene;
  const weight = shaded ? `attention ${number(row[index])}` : '';
  const name = `${quoted(items[index].text)}, token ${index}`;
  const probability = isGenerated && index > 0 ? next.actual[index - 1] ?? null : null;
  const bound = (): number => prepared.errorBound(prepared.heads, step - 1, index);
  return {
    ...layout.boxes[index],
    label: [name, weight, isGenerated && index === step ? 'next token'
      : ''].filter(Boolean).join(', '),
    key: `generation/${isGenerated ? 'written' : 'read'}/${index}`,
    pick: isGenerated && index > 0 ? { step: index } : undefined,
    tooltip: () => [
      `token ${index}: ${whole(items[index].text)}`,
      ...(shaded ? [`attention ${sensible(row[index], bound())}`] : []),
      ...(probability !== null ? [`probability ${percent(probability)}`] : []),
    ],
  };
}

// "After 12 tokens, “cat” follows with probability 34 %; “dog” is most likely (41 %)."
function describeStep({ side, next, step }: GenerationScene): string {
  const { tokens } = side.sequences[next.sequence];
  const [best] = next.top[step - 1] ?? [];
  const actual = next.actual[step - 1] ?? null;
  const mostLikely = best ? `${quoted(best[0])} is most likely (${percent(best[1])})`
    : 'the capture has no probabilities';
  if (step >= tokens.length) return `After all ${count(tokens.length, 'token')}: ${mostLikely}.`;
  const text = `After ${count(step, 'token')}, ${quoted(tokens[step].text)} follows`;
  if (actual === null) return `${text}; ${mostLikely}.`;
  const rank = nextTokenCandidates(next, side, step)[0].isActual ? ', the most likely'
    : `; ${mostLikely}`;
  return `${text} with probability ${percent(actual)}${rank}.`;
}

function summarize(scene: GenerationScene, candidates: Candidate[]): string {
  const { prepared, row } = scene;
  let strongest = 0;
  row.forEach((value, i) => { if (Math.abs(value) > Math.abs(row[strongest])) strongest = i; });
  const attention = maxAbs(row) > 0
    ? `Most attention goes to ${quoted(prepared.keys[strongest].text)} (${sensible(row[strongest])}).` : '';
  const rank = candidates.find((each) => each.isActual)?.rank ?? 0;
  const rankText = rank > 0 ? `The actual token is number ${rank + 1} among the candidates.` : '';
  return [describeStep(scene), rankText, attention,
    describePerplexity(scene)].filter(Boolean).join(' ');
}

// Perplexity of the generated part, or of the whole text if nothing was generated.
function describePerplexity({ side, next }: GenerationScene): string {
  const { prompt } = side.sequences[next.sequence];
  const probabilities = next.actual.slice(Math.max(0, (prompt ?? 1) - 1))
    .filter((each): each is number => each !== null && each > 0);
  if (probabilities.length === 0) return '';
  const mean = probabilities.reduce((sum, each) => sum - Math.log(each), 0) / probabilities.length;
  const part = prompt === null ? 'text' : 'generated part';
  return `Perplexity of the ${part}: ${number(Math.exp(mean), 2)}.`;
}

// First the tokens with their attention weights, then the candidates.
function table({ capture, choices }: Frame): Table {
  const scene = makeScene(capture, choices);
  const { side, next, prepared, row, step, cross } = scene;
  const { prompt, tokens } = side.sequences[next.sequence];
  const part = (i: number): string => (
    prompt === null ? 'text' : i < prompt ? 'prompt' : 'generated');
  const sourceRows = cross ? prepared.keys.map((item, i) => ['source', i, item.text, row[i], ''])
    : [];
  const generatedRows = tokens.map((token, i) => [part(i), i, token.text,
    cross || i >= step ? '' : row[i], i > 0 ? next.actual[i - 1] ?? '' : '']);
  const tableCandidates = nextTokenCandidates(next, side, step).map((each) => (
    [each.isActual ? 'actual next token' : 'candidate', step, each.text, '', each.probability]));
  return {
    title: describeStep(scene),
    header: ['part', 'position', 'token', `attention of token ${step - 1}`, 'probability'],
    rows: [...sourceRows, ...generatedRows, ...tableCandidates],
  };
}

export const generation: View = {
  id: 'generation',
  key: 'g',
  title: 'Generation',
  description: 'Step through a text: the candidates for each token, the actual token, and its attention.',
  missingReason,
  needs,
  draw,
  table,
  controls: ['side', 'step', 'layer', 'heads', 'scale', 'sinks', 'weighting', 'threshold', 'top',
    'search'],
  layers: generatingLayers,
  steps: stepRange,
};
