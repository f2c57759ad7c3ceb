// Parts of the image view: buttons for tokens that are not patches, and a small picture per head.

import { headName, headTitle } from '../names';
import { inCell, number, percent, quoted, short } from '../../shared/readable-text';
import type { Frame, Mark, Target } from '../view';
import { flowRow, tokenName, type ImageScene } from './image-data';
import type { Rect } from './heatmap-panel';
import { rectMark, textMark } from './marks';
import {
  fitPicture, heatMarks, isPatch, largestOnPatches, fractionOnPatches, pictureMark, rankMarks, strongestPatches,
} from './image-marks';

const GAP = 16;
const BUTTON_HEIGHT = 26;
const MIN_PICTURE_WIDTH = 112; // smallest width of a small picture, in pixels
const MAX_PICTURE_WIDTH = 320;
const CAPTION_HEIGHT = 32;

interface ButtonBlock {
  marks: Mark[];
  targets: Target[];
  height: number;
}

// Buttons for the tokens that are not patches, with their attention weights. For a text, every token.
export function tokenButtons(
  scene: ImageScene, x: number, y: number, w: number, measure: Frame['measure'],
): ButtonBlock {
  const { querySequence, selfAttention, image } = scene;
  const block: ButtonBlock = { marks: [], targets: [], height: 0 };
  let [left, top] = [x, y];
  querySequence.tokens.forEach((token, i) => {
    if (selfAttention && isPatch(image, i)) return;
    const text = buttonText(scene, i);
    const buttonWidth = Math.min(w, measure(text, 13) * 1.1 + 24);
    if (left > x && left + buttonWidth > x + w) [left, top] = [x, top + BUTTON_HEIGHT + 6];
    block.marks.push(...buttonMarks(left, top, buttonWidth, text, scene.queries.includes(i)));
    block.targets.push({
      x: left, y: top, w: buttonWidth, h: BUTTON_HEIGHT, key: `image/token/${i}`,
      label: `${quoted(token.text)}, ${scene.queries.includes(i) ? 'selected' : 'select'} as query${
        selfAttention ? `, gets ${number(scene.weights[i], 3)}` : ''}`,
      pick: { queries: [i] }, toggles: { set: 'queries', index: i },
    });
    block.height = top - y + BUTTON_HEIGHT;
    left += buttonWidth + 8;
  });
  return block;
}

function buttonText({ querySequence, selfAttention, weights, queries }: ImageScene,
  token: number): string {
  const gets = selfAttention ? ` gets ${number(weights[token], 3)}` : '';
  return `${queries.includes(token) ? '●' : '○'} ${short(querySequence.tokens[token].text)}${gets}`;
}

function buttonMarks(x: number, y: number, w: number, text: string, isSelected: boolean): Mark[] {
  return [
    rectMark(x, y, w, BUTTON_HEIGHT,
      { fill: 'card', stroke: isSelected ? 'accent' : 'rule', radius: 13 }),
    ...(isSelected ? [rectMark(x - 1, y - 1, w + 2, BUTTON_HEIGHT + 2,
      { stroke: 'accent', radius: 14 })] : []),
    textMark(x + 10, y + 18, text, 13, { bold: isSelected, limit: w - 14 }),
  ];
}

// The area of the small pictures; the page scrolls to the lower ones.
export type PicturesArea = Rect;

interface SmallPicture {
  title: string;
  detail: string;
  values: Float32Array;
  head: number; // -1 for rollout and gradient
}

// A small picture per head of the layer, each colored up to its own largest weight, then rollout and
// gradient, then the picture itself.
export function smallPictures(
  frame: Frame, scene: ImageScene, area: PicturesArea, gray: Uint8Array,
): { marks: Mark[]; targets: Target[]; bottom: number } {
  const pictures = listPictures(frame, scene);
  const w = pictureWidth(pictures.length + 1, scene, area);
  const perRow = Math.max(1, Math.floor((area.w + GAP) / (w + GAP)));
  const marks: Mark[] = [];
  const targets: Target[] = [];
  const pictureRect = (i: number): Rect => {
    const rect = fitPicture(scene.image, area.x + (i % perRow) * (w + GAP), area.y, w, w);
    return { ...rect, y: rect.y + Math.floor(i / perRow) * (rect.h + CAPTION_HEIGHT + 8) };
  };
  pictures.forEach((small, i) => {
    const rect = pictureRect(i);
    const isSelected = small.head >= 0 && frame.choices.heads.includes(small.head);
    marks.push(...pictureMarks(frame, scene, small, rect, gray, isSelected));
    targets.push(pictureTarget(scene, rect, small, isSelected));
  });
  const original = pictureRect(pictures.length);
  marks.push(pictureMark(original, scene.image, frame.capture.bytes(scene.image.pixels)),
    textMark(original.x, original.y + original.h + 14, 'the picture', 12, { limit: w }));
  return { marks, targets, bottom: original.y + original.h + CAPTION_HEIGHT };
}

// The largest width at which all pictures fit; if that is too small, the page scrolls.
function pictureWidth(pictures: number, { image }: ImageScene, area: PicturesArea): number {
  const maxPerRow = Math.max(2, Math.floor((area.w + GAP) / (MIN_PICTURE_WIDTH + GAP)));
  for (let perRow = 1; perRow <= maxPerRow; perRow++) {
    const w = Math.floor((area.w + GAP) / perRow) - GAP;
    const { h } = fitPicture(image, 0, 0, w, w);
    const rows = Math.ceil(pictures / perRow);
    if (w <= MAX_PICTURE_WIDTH && rows * (h + CAPTION_HEIGHT + 8) <= area.h) return w;
  }
  return Math.min(MAX_PICTURE_WIDTH,
    Math.floor((area.w + GAP) / Math.min(maxPerRow, pictures)) - GAP);
}

function listPictures({ capture, choices }: Frame, scene: ImageScene): SmallPicture[] {
  const { prepared, queries } = scene;
  const heads = prepared.layer.heads.map((_, head): SmallPicture => ({
    title: `head ${headName(prepared.layer, head)}`,
    detail: inCell(prepared.layer.patterns[head]?.label ?? ''),
    values: prepared.sum([head], queries), head,
  }));
  const flows = (['rollout', 'gradient'] as const).flatMap((kind): SmallPicture[] => {
    const values = flowRow(capture, choices, scene, kind);
    return values ? [{ title: kind, detail: 'up to this layer', values, head: -1 }] : [];
  });
  return [...heads, ...flows];
}

function pictureMarks(
  { choices }: Frame, { image }: ImageScene, { title, detail, values }: SmallPicture, rect: Rect,
  gray: Uint8Array, isSelected: boolean,
): Mark[] {
  const { x, y, w, h } = rect;
  const largest = largestOnPatches(values, image);
  const outlineMark = (out: number): Mark => (
    rectMark(x - out, y - out, w + 2 * out, h + 2 * out, { stroke: 'accent', radius: 3 }));
  return [
    pictureMark(rect, image, gray), ...heatMarks(rect, image, values, largest, choices.scale),
    ...rankMarks(rect, image, strongestPatches(values, image, 1)),
      rectMark(x, y, w, h, { stroke: 'rule' }),
    ...(isSelected ? [outlineMark(2), outlineMark(3)] : []),
    textMark(x, y + h + 14, `${isSelected ? '● ' : ''}${title}, to ${number(largest, 2)}`, 12,
      { bold: isSelected, limit: w }),
    textMark(x, y + h + 27, detail, 11, { fill: 'dim', limit: w }),
  ];
}

function pictureTarget(
  scene: ImageScene, rect: Rect, { title, values, head }: SmallPicture, isSelected: boolean,
): Target {
  const { image, prepared } = scene;
  const [strongestPatch] = strongestPatches(values, image, 1);
  const mostText = strongestPatch === undefined ? 'no patch gets attention'
    : `most attention to ${tokenName(scene, strongestPatch)}, ${number(values[strongestPatch], 3)}`;
  const name = head >= 0 ? headTitle(prepared.layer, head) : title;
  const fractionText = `${percent(fractionOnPatches(values, image))} of the attention goes to patches`;
  return {
    ...rect, h: rect.h + CAPTION_HEIGHT - 4, key: `image/head/${head < 0 ? title : head}`,
    label: `${name}${isSelected ? ', selected' : ''}: ${mostText}`,
    pick: head < 0 ? undefined : { heads: isSelected && prepared.heads.length === 1 ? [] : [head] },
    toggles: head < 0 ? undefined : { set: 'heads', index: head },
    tooltip: () => [name, mostText, fractionText],
  };
}
