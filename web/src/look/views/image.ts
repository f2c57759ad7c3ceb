// The image view: a picture, and the attention from one patch or other token to all patches.

import type { Capture } from '../capture';
import type { Choices } from '../choices';
import { sideName } from '../names';
import { number, percent, sensible } from '../../shared/readable-text';
import type { Table } from '../../shared/table-type';
import type { Drawing, Frame, Need, Target, View } from '../view';
import { flowMapIndex } from './flow-data';
import { weightsNeeded } from './heads';
import { tokenButtons, smallPictures, type PicturesArea } from './image-panels';
import {
  flowRow, nearestImageLayer, imageLayers, queryName, makeScene, tokenName, type ImageScene,
} from './image-data';
import { meanHead } from './strongest-lines';
import type { Rect } from './heatmap-panel';
import { rectMark, layerTitle, paragraph, textMark } from './marks';
import {
  fitPicture, largestOnPatches, lowContrastGray, gridMarks, heatMarks, isPatch, patchAt, patchRect,
    fractionOnPatches, pictureMark,
  queryMarks, rankMarks, strongestPatches,
} from './image-marks';

const PADDING = 12;
const GAP = 16;
const WIDE_PIXELS = 720; // wider pages show the heads beside the picture
const MAX_PICTURE_PIXELS = 960; // largest width of the picture, in pixels
const MIN_PICTURE_PIXELS = 280;
const CAPTION_HEIGHT = 24;
const MAX_NUMBERED = 5; // patches with a numbered frame

const FLOWS = ['rollout', 'gradient'] as const;

function missingReason(capture: Capture, choices: Choices): string | null {
  const side = capture.header.sides[choices.side];
  if (!side.sequences.some((sequence) => sequence.image)) {
    return `${sideName(side)} has no picture as input: this view needs a vision model `
      + '(attnlab look --image FILE).';
  }
  return imageLayers(capture, choices).length === 0
    ? 'The capture has no layer whose keys are patches of the picture; capture all layers.' : null;
}

function needs(capture: Capture, choices: Choices): Need[] {
  const layer = nearestImageLayer(capture, choices);
  const side = capture.header.sides[choices.side];
  const flows = FLOWS.map((flow) => ({ flow, index: flowMapIndex(side, flow, layer) }));
  return [
    ...weightsNeeded(choices, layer),
    { side: choices.side, image: side.layers[layer].keys },
    ...flows.filter(({ index }) => index >= 0).map((each) => ({ side: choices.side, ...each })),
  ];
}

function draw(frame: Frame): Drawing {
  const { capture, choices, width, measure } = frame;
  const scene = makeScene(capture, choices);
  const { image, weights, prepared } = scene;
  const inner = width - 2 * PADDING;
  const introduction = paragraph(explain(scene, choices), PADDING, PADDING, inner, 13, measure,
    { fill: 'ink' });
  const buttonBlock = tokenButtons(scene, PADDING, PADDING + introduction.height + 8, inner,
    measure);
  const { large, area } = layOutImage(frame, scene,
    PADDING + introduction.height + 8 + buttonBlock.height + GAP);
  const smallBlock = smallPictures(frame, scene, area, lowContrastGray(capture, image));
  const targetOfPatch = (token: number): Target => patchTarget(scene, large, token);
  return {
    width, height: Math.max(large.y + large.h + CAPTION_HEIGHT, smallBlock.bottom) + PADDING,
    marks: [...introduction.marks, ...buttonBlock.marks, ...mainPictureMarks(frame, scene, large),
      ...smallBlock.marks],
    // arrow keys start at the query and move from patch to patch
    targets: [...buttonBlock.targets,
      targetOfPatch(scene.selfAttention && isPatch(image, scene.queries[0])
      ? scene.queries[0] : image.first), ...smallBlock.targets],
    targetAt: (x, y) => {
      const token = patchAt(large, image, x, y);
      return token < 0 ? null : targetOfPatch(token);
    },
    summary: summarize(scene, strongestPatches(weights, image, 3)),
    note: prepared.adjustments.length > 0 ? `Displayed: ${prepared.adjustments.join('; ')}.`
      : undefined,
  };
}

interface ImageLayout {
  large: Rect;
  area: PicturesArea; // of the small pictures
}

function layOutImage({ width, height }: Frame, { image }: ImageScene, top: number): ImageLayout {
  const inner = width - 2 * PADDING;
  if (width < WIDE_PIXELS) {
    const large = fitPicture(image, PADDING, top, inner,
      Math.max(MIN_PICTURE_PIXELS, Math.min(MAX_PICTURE_PIXELS, height)));
    return { large, area: { x: PADDING, y: top + large.h + CAPTION_HEIGHT + GAP, w: inner, h: 0 } };
  }
  const maxSize = Math.max(MIN_PICTURE_PIXELS,
    Math.min(MAX_PICTURE_PIXELS, height - top - CAPTION_HEIGHT - PADDING));
  const large = fitPicture(image, PADDING, top, Math.min(maxSize, inner * 0.5), maxSize);
  const x = PADDING + large.w + 2 * GAP;
  return { large, area: { x, y: top, w: width - PADDING - x, h: height - top } };
}

function mainPictureMarks({ capture, choices }: Frame, scene: ImageScene,
  large: Rect): Drawing['marks'] {
  const { image, weights, selfAttention, queries } = scene;
  const strongest = strongestPatches(weights, image, MAX_NUMBERED);
  const queryPatches = selfAttention ? queries.filter((each) => isPatch(image, each)) : [];
  const largest = largestOnPatches(weights, image);
  const colorText = `Brighter: more attention, up to ${number(largest, 2)}`;
  const rankText = strongest.length > 1 ? `; 1 to ${strongest.length}: largest weights` : '';
  const queryText = queryPatches.length > 0 ? '; ✚: the query' : '';
  return [
    pictureMark(large, image, lowContrastGray(capture, image)),
    ...heatMarks(large, image, weights, largest, choices.scale), ...gridMarks(large, image),
    rectMark(large.x, large.y, large.w, large.h, { stroke: 'rule' }),
    ...rankMarks(large, image, strongest),
    ...queryPatches.flatMap((each) => queryMarks(large, image, each)),
    textMark(large.x, large.y + large.h + 17, `${colorText}${rankText}${queryText}.`, 11,
      { fill: 'dim', limit: large.w }),
  ];
}

function patchTarget(scene: ImageScene, large: Rect, token: number): Target {
  const { image, weights, prepared, selfAttention, queries } = scene;
  const name = tokenName(scene, token);
  const querySuffix = selfAttention && queries.includes(token) ? ', selected as query' : '';
  const value = (): string => (queries.length > 1 ? number(weights[token])
    : sensible(weights[token], prepared.errorBound(prepared.heads, queries[0], token)));
  return {
    ...patchRect(large, image, token),
    label: `${name}: attention ${number(weights[token])}${querySuffix}`,
    key: `image/patch/${token}`,
    pick: selfAttention ? { queries: [token] } : undefined,
    toggles: selfAttention ? { set: 'queries', index: token } : undefined,
    tooltip: () => [`${name} (row, column)`, `gets ${value()}`,
      ...(selfAttention && !querySuffix ? ['click to use it as the query'] : [])],
  };
}

function explain(scene: ImageScene, choices: Choices): string {
  const { prepared, side, layer } = scene;
  const hint = scene.selfAttention ? 'Click a patch to use it as the query.'
    : 'Click a token to use it as the query.';
  return `Attention of ${queryName(scene)}: ${layerTitle(side, layer).toLowerCase()}, ${
    meanHead(prepared).name}.${choices.queries.length === 0 ? ` ${hint}` : ''}`;
}

function summarize(scene: ImageScene, top: number[]): string {
  const { weights, image, prepared, side, layer } = scene;
  const list = top.map((token) => `${tokenName(scene, token)} (${sensible(weights[token])})`)
    .join(', ');
  return `${layerTitle(side, layer)}, ${meanHead(prepared).name}: ${queryName(scene)} attends most to ${
    list || 'no patch'}; ${percent(fractionOnPatches(weights, image))} of its attention goes to patches.`;
}

// One row for each key token, one column for each head.
function table({ capture, choices }: Frame): Table {
  const scene = makeScene(capture, choices);
  const { prepared, side, image, weights, queries } = scene;
  const { tokens } = side.sequences[prepared.layer.keys];
  const heads = prepared.layer.heads.map((_, head) => prepared.sum([head], queries));
  const flows = FLOWS.flatMap((flow) => {
    const values = flowRow(capture, choices, scene, flow);
    return values ? [{ flow, values }] : [];
  });
  const patchPosition = (i: number): (string | number)[] => {
    const patch = i - image.first;
    return isPatch(image, i)
      ? [Math.floor(patch / image.columns) + 1, (patch % image.columns) + 1] : ['', ''];
  };
  return {
    title: explain(scene, choices),
    header: ['token', 'row', 'column', 'displayed',
      ...prepared.layer.heads.map((head) => `head ${head}`),
      ...flows.map(({ flow }) => flow)],
    rows: tokens.map(({ text }, i) => [text, ...patchPosition(i), weights[i],
      ...heads.map((values) => values[i]), ...flows.map(({ values }) => values[i])]),
  };
}

export const image: View = {
  id: 'image',
  key: 'i',
  title: 'Image',
  description: 'The picture with its patches, and the attention of one of them in every head.',
  missingReason,
  needs,
  draw,
  table,
  controls: ['side', 'layer', 'heads', 'queries', 'scale', 'sinks', 'weighting', 'threshold',
    'top'],
  layers: imageLayers,
};
