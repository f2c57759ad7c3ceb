// Beside the picture: tokens that are no patches, and small pictures of every head.

import { headName, headTitle } from '../names';
import { largest } from '../prepare';
import { inCell, number, percent, quoted, short } from '../../shared/text';
import type { Frame, Mark, Target } from '../view';
import { flowRow, tokenName, type Scene } from './image-scene';
import type { Place } from './panel';
import { box, words } from './parts';
import {
  fitted, heatMarks, isPatch, patchShare, pictureMark, rankMarks, strongest,
} from './picture';

const GAP = 16;
const CHIP = 26;
const SMALL = 112; // pixels of a small picture, at least
const LARGEST = 320;
const CAPTION = 32;

interface Part {
  marks: Mark[];
  targets: Target[];
  height: number;
}

// Tokens that are no patches, as buttons with the attention they get; of a text every token.
export function chips(
  scene: Scene, x: number, y: number, w: number, measure: Frame['measure'],
): Part {
  const { asked, own, image } = scene;
  const part: Part = { marks: [], targets: [], height: 0 };
  let [left, top] = [x, y];
  asked.tokens.forEach((token, i) => {
    if (own && isPatch(image, i)) return;
    const text = chipText(scene, i);
    const wide = Math.min(w, measure(text, 13) * 1.1 + 24);
    if (left > x && left + wide > x + w) [left, top] = [x, top + CHIP + 6];
    part.marks.push(...chipMarks(left, top, wide, text, scene.queries.includes(i)));
    part.targets.push({
      x: left, y: top, w: wide, h: CHIP, key: `image/token/${i}`,
      label: `${quoted(token.text)}, ${scene.queries.includes(i) ? 'chosen' : 'choose'} as query${
        own ? `, gets ${number(scene.main[i], 3)}` : ''}`,
      pick: { queries: [i] }, toggles: { what: 'queries', index: i },
    });
    part.height = top - y + CHIP;
    left += wide + 8;
  });
  return part;
}

function chipText({ asked, own, main, queries }: Scene, token: number): string {
  const gets = own ? ` gets ${number(main[token], 3)}` : '';
  return `${queries.includes(token) ? '●' : '○'} ${short(asked.tokens[token].text)}${gets}`;
}

function chipMarks(x: number, y: number, w: number, text: string, chosen: boolean): Mark[] {
  return [
    box(x, y, w, CHIP, { fill: 'card', stroke: chosen ? 'accent' : 'rule', radius: 13 }),
    ...(chosen ? [box(x - 1, y - 1, w + 2, CHIP + 2, { stroke: 'accent', radius: 14 })] : []),
    words(x + 10, y + 18, text, 13, { bold: chosen, limit: w - 14 }),
  ];
}

// For the small pictures; lower ones are seen by scrolling.
export type Room = Place;

interface Small {
  title: string;
  detail: string;
  values: Float32Array;
  head: number; // -1: no head
}

// Every head of the layer, each up to its own largest weight, then what flows through all layers,
// then the picture itself.
export function smallPictures(
  frame: Frame, scene: Scene, room: Room, gray: Uint8Array,
): { marks: Mark[]; targets: Target[]; bottom: number } {
  const all = smallsOf(frame, scene);
  const w = widthOf(all.length + 1, scene, room);
  const across = Math.max(1, Math.floor((room.w + GAP) / (w + GAP)));
  const marks: Mark[] = [];
  const targets: Target[] = [];
  const placeOf = (i: number): Place => {
    const place = fitted(scene.image, room.x + (i % across) * (w + GAP), room.y, w, w);
    return { ...place, y: place.y + Math.floor(i / across) * (place.h + CAPTION + 8) };
  };
  all.forEach((small, i) => {
    const place = placeOf(i);
    const chosen = small.head >= 0 && frame.choices.heads.includes(small.head);
    marks.push(...smallMarks(frame, scene, small, place, gray, chosen));
    targets.push(smallTarget(scene, place, small, chosen));
  });
  const last = placeOf(all.length);
  marks.push(pictureMark(last, scene.image, frame.opened.bytes(scene.image.pixels)),
    words(last.x, last.y + last.h + 14, 'the picture', 12, { limit: w }));
  return { marks, targets, bottom: last.y + last.h + CAPTION };
}

// The largest with which all are seen at once; where that is too small, the page scrolls.
function widthOf(pictures: number, { image }: Scene, room: Room): number {
  const fitting = Math.max(2, Math.floor((room.w + GAP) / (SMALL + GAP)));
  for (let across = 1; across <= fitting; across++) {
    const w = Math.floor((room.w + GAP) / across) - GAP;
    const { h } = fitted(image, 0, 0, w, w);
    const rows = Math.ceil(pictures / across);
    if (w <= LARGEST && rows * (h + CAPTION + 8) <= room.h) return w;
  }
  return Math.min(LARGEST, Math.floor((room.w + GAP) / Math.min(fitting, pictures)) - GAP);
}

function smallsOf({ opened, choices }: Frame, scene: Scene): Small[] {
  const { seen, queries } = scene;
  const heads = seen.layer.heads.map((_, head): Small => ({
    title: `head ${headName(seen.layer, head)}`,
    detail: inCell(seen.layer.patterns[head]?.label ?? ''),
    values: seen.sum([head], queries), head,
  }));
  const flows = (['rollout', 'gradient'] as const).flatMap((kind): Small[] => {
    const values = flowRow(opened, choices, scene, kind);
    return values ? [{ title: kind, detail: 'up to this layer', values, head: -1 }] : [];
  });
  return [...heads, ...flows];
}

function smallMarks(
  { choices }: Frame, { image }: Scene, { title, detail, values }: Small, place: Place,
  gray: Uint8Array, chosen: boolean,
): Mark[] {
  const { x, y, w, h } = place;
  const most = largest(values);
  const outline = (out: number): Mark => (
    box(x - out, y - out, w + 2 * out, h + 2 * out, { stroke: 'accent', radius: 3 }));
  return [
    pictureMark(place, image, gray), ...heatMarks(place, image, values, most, choices.scale),
    ...rankMarks(place, image, strongest(values, image, 1)), box(x, y, w, h, { stroke: 'rule' }),
    ...(chosen ? [outline(2), outline(3)] : []),
    words(x, y + h + 14, `${chosen ? '● ' : ''}${title}, to ${number(most, 2)}`, 12,
      { bold: chosen, limit: w }),
    words(x, y + h + 27, detail, 11, { fill: 'dim', limit: w }),
  ];
}

function smallTarget(
  scene: Scene, place: Place, { title, values, head }: Small, chosen: boolean,
): Target {
  const { image, seen } = scene;
  const [best] = strongest(values, image, 1);
  const most = best === undefined ? 'no patch gets attention'
    : `most to ${tokenName(scene, best)}, ${number(values[best], 3)}`;
  const name = head >= 0 ? headTitle(seen.layer, head) : title;
  const share = `${percent(patchShare(values, image))} of the attention goes to patches`;
  return {
    ...place, h: place.h + CAPTION - 4, key: `image/head/${head < 0 ? title : head}`,
    label: `${name}${chosen ? ', chosen' : ''}: ${most}`,
    pick: head < 0 ? undefined : { heads: chosen && seen.heads.length === 1 ? [] : [head] },
    toggles: head < 0 ? undefined : { what: 'heads', index: head },
    tip: () => [name, most, share],
  };
}
