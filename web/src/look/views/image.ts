// A picture and its patches: what one patch, or a token that is no patch, looks at in every head.

import type { Opened } from '../capture';
import type { Choices } from '../choices';
import { largest } from '../prepare';
import { number, percent, rounded } from '../../shared/text';
import type { Table } from '../../shared/table';
import type { Drawing, Frame, Need, Target, View } from '../view';
import { flowPlace } from './flowing';
import { weightsNeeded } from './heads';
import { chips, smallPictures, type Room } from './image-parts';
import {
  flowRow, layerOf, layersOf, queryName, sceneOf, tokenName, type Scene,
} from './image-scene';
import { meanHead } from './lines';
import { sideName } from './naming';
import type { Place } from './panel';
import { box, layerTitle, paragraph, words } from './parts';
import {
  fitted, grayOf, gridMarks, heatMarks, isPatch, patchAt, patchBox, patchShare, pictureMark,
  queryMarks, rankMarks, strongest,
} from './picture';

const PAD = 12;
const GAP = 16;
const WIDE = 720; // from here on the heads stand beside the picture
const LARGEST = 960; // pixels of the picture
const LEAST = 280;
const CAPTION = 24;
const NUMBERED = 5; // patches with a frame

const FLOWS = ['rollout', 'gradient'] as const;

function missing(opened: Opened, choices: Choices): string | null {
  const side = opened.header.sides[choices.side];
  if (!side.sequences.some((sequence) => sequence.image)) {
    return `${sideName(side)} saw no picture: this view needs a vision model, which looks at an `
      + 'image (attnlab look --image FILE).';
  }
  return layersOf(opened, choices).length === 0
    ? 'No layer was captured whose keys are patches of the picture; capture all layers.' : null;
}

function needs(opened: Opened, choices: Choices): Need[] {
  const layer = layerOf(opened, choices);
  const side = opened.header.sides[choices.side];
  const flows = FLOWS.map((flow) => ({ flow, index: flowPlace(side, flow, layer) }));
  return [
    ...weightsNeeded(choices, layer),
    { side: choices.side, image: side.layers[layer].keys },
    ...flows.filter(({ index }) => index >= 0).map((each) => ({ side: choices.side, ...each })),
  ];
}

function draw(frame: Frame): Drawing {
  const { opened, choices, width, measure } = frame;
  const scene = sceneOf(opened, choices);
  const { image, main, seen } = scene;
  const inner = width - 2 * PAD;
  const said = paragraph(explained(scene, choices), PAD, PAD, inner, 13, measure, { fill: 'ink' });
  const buttons = chips(scene, PAD, PAD + said.height + 8, inner, measure);
  const { large, room } = layOut(frame, scene, PAD + said.height + 8 + buttons.height + GAP);
  const smalls = smallPictures(frame, scene, room, grayOf(opened, image));
  const patch = (token: number): Target => patchTarget(scene, large, token);
  return {
    width, height: Math.max(large.y + large.h + CAPTION, smalls.bottom) + PAD,
    marks: [...said.marks, ...buttons.marks, ...largeMarks(frame, scene, large), ...smalls.marks],
    // keys begin at the query; from there they go from patch to patch
    targets: [...buttons.targets, patch(scene.own && isPatch(image, scene.queries[0])
      ? scene.queries[0] : image.first), ...smalls.targets],
    at: (x, y) => {
      const token = patchAt(large, image, x, y);
      return token < 0 ? null : patch(token);
    },
    summary: summaryOf(scene, strongest(main, image, 3)),
    note: seen.changed.length > 0 ? `Shown: ${seen.changed.join('; ')}.` : undefined,
  };
}

interface Layout {
  large: Place;
  room: Room; // for the heads
}

function layOut({ width, height }: Frame, { image }: Scene, top: number): Layout {
  const inner = width - 2 * PAD;
  if (width < WIDE) {
    const large = fitted(image, PAD, top, inner, Math.max(LEAST, Math.min(LARGEST, height)));
    return { large, room: { x: PAD, y: top + large.h + CAPTION + GAP, w: inner, h: 0 } };
  }
  const most = Math.max(LEAST, Math.min(LARGEST, height - top - CAPTION - PAD));
  const large = fitted(image, PAD, top, Math.min(most, inner * 0.5), most);
  const x = PAD + large.w + 2 * GAP;
  return { large, room: { x, y: top, w: width - PAD - x, h: height - top } };
}

function largeMarks({ opened, choices }: Frame, scene: Scene, large: Place): Drawing['marks'] {
  const { image, main, own, queries } = scene;
  const top = strongest(main, image, NUMBERED);
  const asking = own ? queries.filter((each) => isPatch(image, each)) : [];
  const full = `Full color: ${number(largest(main), 3)}`;
  const ranks = top.length > 1 ? `; 1 to ${top.length}: most attention` : '';
  const cross = asking.length > 0 ? '; ✚: the query' : '';
  return [
    pictureMark(large, image, grayOf(opened, image)),
    ...heatMarks(large, image, main, largest(main), choices.scale), ...gridMarks(large, image),
    box(large.x, large.y, large.w, large.h, { stroke: 'rule' }),
    ...rankMarks(large, image, top),
    ...asking.flatMap((each) => queryMarks(large, image, each)),
    words(large.x, large.y + large.h + 17, `${full}${ranks}${cross}.`, 11,
      { fill: 'dim', limit: large.w }),
  ];
}

function patchTarget(scene: Scene, large: Place, token: number): Target {
  const { image, main, seen, own, queries } = scene;
  const name = tokenName(scene, token);
  const asks = own && queries.includes(token) ? ', chosen as query' : '';
  const value = (): string => (queries.length > 1 ? number(main[token])
    : rounded(main[token], seen.bound(seen.heads, queries[0], token)));
  return {
    ...patchBox(large, image, token),
    label: `${name}: attention ${number(main[token])}${asks}`,
    key: `image/patch/${token}`,
    pick: own ? { queries: [token] } : undefined,
    toggles: own ? { what: 'queries', index: token } : undefined,
    tip: () => [`${name} (row, column)`, `gets ${value()}`,
      ...(own && !asks ? ['click: what it looks at'] : [])],
  };
}

function explained(scene: Scene, choices: Choices): string {
  const { seen, side, layer } = scene;
  const asks = scene.own ? 'Click a patch to let it ask.' : 'Click a token to let it ask.';
  return `What ${queryName(scene)} looks at: ${layerTitle(side, layer).toLowerCase()}, ${
    meanHead(seen).name}.${choices.queries.length === 0 ? ` ${asks}` : ''}`;
}

function summaryOf(scene: Scene, top: number[]): string {
  const { main, image, seen, side, layer } = scene;
  const most = top.map((token) => `${tokenName(scene, token)} (${number(main[token], 3)})`)
    .join(', ');
  return `${layerTitle(side, layer)}, ${meanHead(seen).name}: ${queryName(scene)} looks most at ${
    most || 'no patch'}; ${percent(patchShare(main, image))} of its attention goes to patches.`;
}

// One row for each token that is looked at, one column for each head.
function table({ opened, choices }: Frame): Table {
  const scene = sceneOf(opened, choices);
  const { seen, side, image, main, queries } = scene;
  const { tokens } = side.sequences[seen.layer.keys];
  const heads = seen.layer.heads.map((_, head) => seen.sum([head], queries));
  const flows = FLOWS.flatMap((flow) => {
    const values = flowRow(opened, choices, scene, flow);
    return values ? [{ flow, values }] : [];
  });
  const place = (i: number): (string | number)[] => {
    const patch = i - image.first;
    return isPatch(image, i)
      ? [Math.floor(patch / image.columns) + 1, (patch % image.columns) + 1] : ['', ''];
  };
  return {
    title: explained(scene, choices),
    header: ['token', 'row', 'column', 'shown', ...seen.layer.heads.map((head) => `head ${head}`),
      ...flows.map(({ flow }) => flow)],
    rows: tokens.map(({ text }, i) => [text, ...place(i), main[i],
      ...heads.map((values) => values[i]), ...flows.map(({ values }) => values[i])]),
  };
}

export const image: View = {
  id: 'image',
  key: 'i',
  title: 'Image',
  about: 'The picture with its patches, and what one of them looks at, in every head.',
  missing,
  needs,
  draw,
  table,
  controls: ['side', 'layer', 'heads', 'queries', 'scale', 'sinks', 'weighting', 'threshold',
    'top'],
  layers: layersOf,
};
