// Token by token: what was likely to come next, what really came, and what was looked at for it.
// `choices.step` is the token that is written; the query is the token before it, which predicts it.

import type { Opened } from '../capture';
import type { Choices } from '../choices';
import type { Next, Side } from '../format';
import { items, largest, prepare, type Item, type Seen } from '../prepare';
import { count, number, percent, quoted, rounded, whole } from '../../shared/text';
import type { Table } from '../../shared/table';
import type { Drawing, Frame, Mark, Need, Target, View } from '../view';
import { candidateRows, candidates, type Candidate } from './candidates';
import { weightsNeeded } from './heads';
import { meanHead } from './lines';
import { nearestLayer, sideName } from './naming';
import { layerTitle, paragraph } from './parts';
import { flowing, runningMarks, type Running } from './running';
import { track } from './track';

const PAD = 12;
const GAP = 24;
const WIDE = 860; // from here on the probabilities stand beside the text

interface Scene {
  side: Side;
  next: Next;
  layer: number;
  seen: Seen;
  step: number;
  written: Item[]; // the text that was generated
  row: Float32Array; // what the query before the step looks at
  cross: boolean;
}

// Layers whose queries are the text that is generated.
function layersOf(opened: Opened, choices: Choices): number[] {
  const side = opened.header.sides[choices.side];
  return side.layers.flatMap((layer, i) => (layer.queries === side.next?.sequence ? [i] : []));
}

const layerOf = (opened: Opened, choices: Choices): number => (
  nearestLayer(layersOf(opened, choices), choices.layer));

// The first that can be chosen, the last, and the one that is shown: without a choice the first
// that was generated, or what would come after the text.
export function stepsOf(opened: Opened, choices: Choices): [number, number, number] {
  const { next, sequences } = opened.header.sides[choices.side];
  if (!next) return [1, 1, 1];
  const { tokens, prompt } = sequences[next.sequence];
  const shown = choices.step ?? prompt ?? tokens.length;
  return [1, tokens.length, Math.max(1, Math.min(shown, tokens.length))];
}

function missing(opened: Opened, choices: Choices): string | null {
  const side = opened.header.sides[choices.side];
  if (side.next === null) {
    return `${sideName(side)} has no probabilities of next tokens: this view needs a causal model `
      + '(a decoder, or an encoder-decoder). Let one write to see it (attnlab look --generate N).';
  }
  if (side.sequences[side.next.sequence].tokens.length === 0) return 'The text has no tokens.';
  return layersOf(opened, choices).length === 0
    ? 'No layer was captured whose queries are the generated text; capture all layers.' : null;
}

const needs = (opened: Opened, choices: Choices): Need[] => (
  weightsNeeded(choices, layerOf(opened, choices)));

// Words are not merged here: a word's later tokens are not yet written.
function sceneOf(opened: Opened, choices: Choices): Scene {
  const side = opened.header.sides[choices.side];
  const next = side.next as Next; // or the view is missing
  const layer = layerOf(opened, choices);
  const seen = prepare(opened, { ...choices, words: false }, choices.side, layer);
  const [, , step] = stepsOf(opened, choices);
  return {
    side, next, layer, seen, step, written: items(side.sequences[next.sequence], false),
    row: seen.row(seen.heads, step - 1),
    cross: seen.layer.keys !== next.sequence,
  };
}

function draw(frame: Frame): Drawing {
  const { opened, choices, width, measure } = frame;
  const scene = sceneOf(opened, choices);
  const { side, next, step, seen } = scene;
  const inner = width - 2 * PAD;
  const said = paragraph(happened(scene), PAD, PAD, inner, 15, measure, { fill: 'ink' });
  const line = track({ side, next, step, x: PAD, y: PAD + said.height + 8, w: inner });
  const top = PAD + said.height + 8 + line.height + GAP;
  const beside = width >= WIDE;
  const textWidth = beside ? Math.floor(inner * 0.64) : inner;
  const text = textOf(scene, frame, top, textWidth);
  const likely = candidates(next, side, step);
  const bars = candidateRows(
    likely, beside ? PAD + textWidth + GAP : PAD, beside ? top : top + text.height + GAP,
    beside ? inner - textWidth - GAP : inner, measure, step);
  return {
    width, height: Math.max(top + text.height, bars.y + bars.height) + PAD,
    marks: [...said.marks, ...line.marks, ...text.marks, ...bars.marks],
    targets: [line.here, ...text.targets, ...bars.targets],
    at: line.at,
    summary: summaryOf(scene, likely),
    note: seen.changed.length > 0 ? `Shown: ${seen.changed.join('; ')}.` : undefined,
  };
}

interface Part {
  marks: Mark[];
  targets: Target[];
  height: number;
}

// The tokens that are looked at; where those are of another text, the generated one stands below.
function textOf(scene: Scene, frame: Frame, y: number, w: number): Part {
  const { seen, cross, next } = scene;
  const read = shadedText(scene, frame, lookedAt(scene), seen.keys, seen.layer.keys, true, y, w);
  if (!cross) return read;
  const below = shadedText(scene, frame, 'The text that is written', scene.written, next.sequence,
    false, y + read.height + GAP, w);
  return {
    marks: [...read.marks, ...below.marks], targets: [...read.targets, ...below.targets],
    height: read.height + GAP + below.height,
  };
}

function shadedText(
  scene: Scene, { choices, measure }: Frame, title: string, all: Item[], sequence: number,
  shaded: boolean, y: number, w: number,
): Part {
  const { row, step, side } = scene;
  const head = paragraph(title, PAD, y, w, 12, measure);
  const { tokens } = side.sequences[sequence];
  const running = flowing(all, tokens, PAD, y + head.height + 6, w, measure);
  const written = sequence === scene.next.sequence;
  const marks = runningMarks(running, all, {
    values: shaded ? row : new Float32Array(all.length), most: largest(row),
    scale: choices.scale, search: choices.search,
    chosen: (i) => written && i === step, later: (i) => written && i > step,
  });
  return {
    marks: [...head.marks, ...marks], height: head.height + 6 + running.height,
    targets: all.map((_, i) => tokenTarget(scene, running, all, i, written, shaded)),
  };
}

function lookedAt({ seen, side, layer, step, written, row }: Scene): string {
  const where = `${layerTitle(side, layer)}, ${meanHead(seen).name}`;
  return `What ${quoted(written[step - 1].text)} (token ${step - 1}) looks at to say what comes `
    + `next. ${where}; the highest bar is ${number(largest(row), 3)}.`;
}

function tokenTarget(
  scene: Scene, running: Running, all: Item[], index: number, written: boolean, shaded: boolean,
): Target {
  const { seen, row, next, step } = scene;
  const weight = shaded ? `attention ${number(row[index])}` : '';
  const name = `${quoted(all[index].text)}, token ${index}`;
  const came = written && index > 0 ? next.actual[index - 1] ?? null : null;
  const bound = (): number => seen.bound(seen.heads, step - 1, index);
  return {
    ...running.boxes[index],
    label: [name, weight, written && index === step ? 'comes next' : ''].filter(Boolean).join(', '),
    key: `generation/${written ? 'written' : 'read'}/${index}`,
    pick: written && index > 0 ? { step: index } : undefined,
    tip: () => [
      `token ${index}: ${whole(all[index].text)}`,
      ...(shaded ? [`attention ${rounded(row[index], bound())}`] : []),
      ...(came !== null ? [`was written with probability ${percent(came)}`] : []),
    ],
  };
}

// "After 12 tokens “cat” comes, with probability 34 %; “dog” is likeliest (41 %)."
function happened({ side, next, step }: Scene): string {
  const { tokens } = side.sequences[next.sequence];
  const [best] = next.top[step - 1] ?? [];
  const actual = next.actual[step - 1] ?? null;
  const likeliest = best ? `${quoted(best[0])} is likeliest (${percent(best[1])})`
    : 'no probabilities were kept';
  if (step >= tokens.length) return `After all ${count(tokens.length, 'token')}: ${likeliest}.`;
  const came = `After ${count(step, 'token')} ${quoted(tokens[step].text)} comes`;
  if (actual === null) return `${came}; ${likeliest}.`;
  const rank = candidates(next, side, step)[0].came ? ', the likeliest' : `; ${likeliest}`;
  return `${came}, with probability ${percent(actual)}${rank}.`;
}

function summaryOf(scene: Scene, likely: Candidate[]): string {
  const { seen, row } = scene;
  let most = 0;
  row.forEach((value, i) => { if (Math.abs(value) > Math.abs(row[most])) most = i; });
  const looked = largest(row) > 0
    ? `Most attention goes to ${quoted(seen.keys[most].text)} (${number(row[most], 3)}).` : '';
  const rank = likely.find((each) => each.came)?.rank ?? 0;
  const place = rank > 0 ? `What came is number ${rank + 1} among the likeliest.` : '';
  return [happened(scene), place, looked, perplexity(scene)].filter(Boolean).join(' ');
}

// How surprising the generated part was, or the whole text where nothing was generated.
function perplexity({ side, next }: Scene): string {
  const { prompt } = side.sequences[next.sequence];
  const known = next.actual.slice(Math.max(0, (prompt ?? 1) - 1))
    .filter((each): each is number => each !== null && each > 0);
  if (known.length === 0) return '';
  const mean = known.reduce((sum, each) => sum - Math.log(each), 0) / known.length;
  const what = prompt === null ? 'text' : 'generated part';
  return `Perplexity of the ${what}: ${number(Math.exp(mean), 2)}.`;
}

// Tokens with the attention to them, then what was likely.
function table({ opened, choices }: Frame): Table {
  const scene = sceneOf(opened, choices);
  const { side, next, seen, row, step, cross } = scene;
  const { prompt, tokens } = side.sequences[next.sequence];
  const part = (i: number): string => (
    prompt === null ? 'text' : i < prompt ? 'prompt' : 'generated');
  const read = cross ? seen.keys.map((item, i) => ['read', i, item.text, row[i], '']) : [];
  const written = tokens.map((token, i) => [part(i), i, token.text,
    cross || i >= step ? '' : row[i], i > 0 ? next.actual[i - 1] ?? '' : '']);
  const likely = candidates(next, side, step).map((each) => (
    [each.came ? 'came next' : 'may come next', step, each.text, '', each.probability]));
  return {
    title: happened(scene),
    header: ['part', 'position', 'token', `attention of token ${step - 1}`, 'probability'],
    rows: [...read, ...written, ...likely],
  };
}

export const generation: View = {
  id: 'generation',
  key: 'g',
  title: 'Generation',
  about: 'Step through a text: what was likely to come next, what came, and what was looked at.',
  missing,
  needs,
  draw,
  table,
  controls: ['side', 'step', 'layer', 'heads', 'scale', 'sinks', 'weighting', 'threshold', 'top',
    'search'],
  layers: layersOf,
  steps: stepsOf,
};
