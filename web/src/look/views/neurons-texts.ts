// The neurons of one word in two texts: its key and its value in both, side by side, and how much the
// keys of all common words changed.

import { number, quoted } from '../../shared/readable-text';
import type { Table } from '../../shared/table-type';
import type { Capture } from '../capture';
import type { LayerInfo, Token } from '../capture-format';
import type { Choices } from '../choices';
import { headName, sideName } from '../names';
import { selectedHeads } from '../prepare-weights';
import type { Drawing, Frame, Mark, Need, Target } from '../view';
import { alignTokens } from './align-tokens';
import { keyVector, valueVector, vectorNorm } from './attention-scores';
import { layerTitle, lineMark, paragraph, rectMark, textMark } from './marks';
import { isWord } from './neurons-data';
import { elementTarget, layOutStrip, STRIP_HEIGHT, stripMarks, stripTarget, type StripLayout,
} from './vector-strips';

const PADDING = 12;
const WIDE_PIXELS = 860;
const ROW = 19;
const FONT = 11;
const MAX_WORDS = 200;

// Index of the other side, if the same layer has keys or values of the same size there.
export function otherText(capture: Capture, choices: Choices): number | null {
  const other = 1 - choices.side;
  const [one, two] = [choices.side, other].map((i) => capture.header.sides[i]?.layers[choices.layer]);
  const same = (name: 'k' | 'v'): boolean =>
    !!one?.[name] && !!two?.[name] && one[name].shape[2] === two[name].shape[2];
  return (same('k') || same('v')) && one.heads.length === two.heads.length ? other : null;
}

export function vectorsMode(capture: Capture, choices: Choices): Choices['vectors'] {
  const { vectors } = choices;
  if (vectors === 'texts') return otherText(capture, choices) === null ? 'pair' : 'texts';
  return vectors === 'keys' && capture.header.sides[choices.side].layers[choices.layer]?.k
    ? 'keys' : 'pair';
}

export function textsNeeds(choices: Choices): Need[] {
  return [0, 1].map((side) => ({ side, layer: choices.layer, parts: ['k', 'v'] }));
}

interface WordPair {
  left: number; // position in the first text
  right: number;
  similarity: number; // of both keys: cosine
}

interface TwoTexts {
  title: string;
  labels: [string, string];
  tokens: [Token[], Token[]];
  words: WordPair[];
  chosen: WordPair;
  vectors: (word: WordPair, kind: 'k' | 'v') => [Float32Array, Float32Array] | null;
}

export function cosine(one: Float32Array, other: Float32Array): number {
  const dot = one.reduce((sum, x, i) => sum + x * other[i], 0);
  const size = vectorNorm(one) * vectorNorm(other);
  return size > 0 ? Math.max(-1, Math.min(1, dot / size)) : 0;
}

// Null if the texts have no word in common.
export function readTexts(capture: Capture, choices: Choices): TwoTexts | null {
  const other = otherText(capture, choices);
  if (other === null) return null;
  const panels = [choices.side, other].map((i) => capture.header.sides[i]);
  const layers = panels.map((side) => side.layers[choices.layer]) as [LayerInfo, LayerInfo];
  const tokens = panels.map((side, i) => side.sequences[layers[i].keys].tokens) as [Token[], Token[]];
  const head = selectedHeads(layers[0], choices)[0];
  const vectors: TwoTexts['vectors'] = ({ left, right }, kind) => {
    const read = kind === 'k' ? keyVector : valueVector;
    const [one, two] = [read(capture, layers[0], head, left), read(capture, layers[1], head, right)];
    return one && two && one.length === two.length ? [one, two] : null;
  };
  const { left, right } = alignTokens(tokens[0], tokens[1]);
  const words = Array.from(left, (index, i): WordPair => {
    const word = { left: index, right: right[i], similarity: 0 };
    const pair = vectors(word, 'k') ?? vectors(word, 'v');
    return { ...word, similarity: pair ? cosine(...pair) : 0 };
  }).slice(0, MAX_WORDS);
  if (!words.length) return null;
  const proper = words.filter((word) => isWord(tokens[0][word.left]));
  const changed = (proper.length ? proper : words).reduce((most, word) => (
    word.similarity < most.similarity ? word : most));
  return {
    title: `${layerTitle(panels[0], choices.layer)}, head ${headName(layers[0], head)}`,
    labels: [sideName(panels[0]), sideName(panels[1])], tokens, words, vectors,
    chosen: words.find((word) => word.left === choices.key) ?? changed,
  };
}

export function drawTexts(frame: Frame): Drawing {
  const texts = readTexts(frame.capture, frame.choices);
  const { width, measure } = frame;
  if (!texts) {
    const block = paragraph('The two texts have no word in common.', PADDING, PADDING,
      width - 2 * PADDING, 14, measure);
    return { width, height: block.height + 2 * PADDING, marks: block.marks, targets: [],
      summary: 'The two texts have no word in common.' };
  }
  const wide = width >= WIDE_PIXELS;
  const content = Math.min(width - 2 * PADDING, 1700);
  const vectorWidth = wide ? content * 0.6 : content;
  const strips = vectorStrips(texts, vectorWidth, measure);
  const x = wide ? PADDING + vectorWidth + 36 : PADDING;
  const list = wordList(texts, x, wide ? PADDING : strips.height + 12, PADDING + content - x);
  return {
    width, height: Math.max(strips.height, list.bottom) + PADDING,
    marks: [...strips.marks, ...list.marks], targets: [...strips.targets, ...list.targets],
    targetAt: (atX, atY) => elementTarget(strips.groups, atX, atY),
    summary: summarize(texts),
  };
}

function summarize({ title, tokens, chosen, words }: TwoTexts): string {
  const word = quoted(tokens[0][chosen.left].text);
  const most = words.reduce((least, each) => (each.similarity < least.similarity ? each : least));
  const end = most === chosen ? '; no other common token changed more'
    : `; that of ${quoted(tokens[0][most.left].text)} changed most, ${number(most.similarity, 2)}`;
  return `${title}: the keys of ${word} in both texts have cosine similarity ` +
    `${number(chosen.similarity, 2)}${end}.`;
}

function vectorStrips(texts: TwoTexts, w: number, measure: Frame['measure']) {
  const { chosen, labels, tokens } = texts;
  const word = quoted(tokens[0][chosen.left].text);
  const title = paragraph(`${texts.title}: ${word} in two texts`, PADDING, PADDING, w, 14, measure,
    { bold: true });
  const marks: Mark[] = [...title.marks];
  const groups: StripLayout[][] = [];
  let y = PADDING + title.height + 8;
  for (const [kind, name] of [['k', 'key'], ['v', 'value']] as const) {
    const pair = texts.vectors(chosen, kind);
    if (!pair) continue;
    const [one, two] = pair;
    const rows: [string, boolean, Float32Array][] = [
      [`${name}: ${labels[0]}`, true, one], [`${name}: ${labels[1]}`, true, two],
      [w < 500 ? `difference, cosine ${number(cosine(one, two), 3)}`
        : `difference, cosine similarity ${number(cosine(one, two), 3)}`, true,
        one.map((x, i) => x - two[i])],
    ];
    groups.push(rows.map(([label, showNorm, values]) => {
      const layout = layOutStrip({ name: label, showNorm, values }, PADDING, y, w);
      marks.push(...stripMarks(layout));
      y += STRIP_HEIGHT;
      return layout;
    }));
    y += 14;
  }
  return { marks, groups, targets: groups.flat().map(stripTarget), height: y };
}

function wordList({ words, tokens, chosen }: TwoTexts, x: number, y: number, w: number) {
  const label = Math.min(170, w * 0.4);
  const bars = w - label - 60;
  const top = y + 42;
  const marks: Mark[] = [
    textMark(x, y + 14, 'All common tokens', 13, { bold: true, limit: w }),
    textMark(x, y + 32, 'cosine similarity of their keys in the two texts', FONT,
      { fill: 'dim', limit: w }),
  ];
  const targets = words.map((word, i): Target => {
    const at = top + i * ROW;
    const { text } = tokens[0][word.left];
    const share = Math.max(0, word.similarity);
    if (word === chosen)
      marks.push(rectMark(x - 3, at, w + 6, ROW, { fill: 'card', stroke: 'accent', radius: 3 }));
    marks.push(
      textMark(x, at + 13, quoted(text), FONT, { mono: true, limit: label - 8 }),
      rectMark(x + label, at + 4, share * bars, ROW - 8, { fill: 's0' }),
      textMark(x + w, at + 13, number(word.similarity, 3), FONT, { mono: true, anchor: 'end' }),
    );
    const name = `${quoted(text)}: cosine similarity ${number(word.similarity, 3)}`;
    return { x: x - 3, y: at, w: w + 6, h: ROW, label: name, key: `neurons/word/${word.left}`,
      pick: { key: word.left } };
  });
  const bottom = top + words.length * ROW;
  marks.push(lineMark(x + label, top, x + label, bottom, 'dim'));
  return { marks, targets, bottom };
}

export function textsTable({ capture, choices }: Frame): Table {
  const texts = readTexts(capture, choices);
  const header = ['token', 'position in the first text', 'position in the second', 'cosine similarity'];
  if (!texts) return { title: 'The two texts have no word in common.', header, rows: [] };
  return {
    title: summarize(texts), header,
    rows: texts.words.map(({ left, right, similarity }) => [
      texts.tokens[0][left].text, left, right, Number(similarity.toPrecision(6)),
    ]),
  };
}
