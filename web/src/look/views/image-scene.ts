// What the image view is about: the picture, who asks, and what they look at.

import type { Opened } from '../capture';
import type { Choices } from '../choices';
import type { Picture, Sequence, Side } from '../format';
import { filter, prepare, sinksOf, sumRows, withoutSinks, type Seen } from '../prepare';
import { count, quoted, short } from '../../shared/text';
import { flowPlace, type FlowKind } from './flowing';
import { nearestLayer } from './naming';
import { isPatch } from './picture';

export interface Scene {
  side: Side;
  layer: number;
  image: Picture;
  seen: Seen;
  asked: Sequence; // of the queries
  own: boolean; // queries are of the same picture
  queries: number[];
  main: Float32Array; // what they look at together, by the chosen heads
}

// Layers whose keys are a picture's.
export function layersOf(opened: Opened, choices: Choices): number[] {
  const side = opened.header.sides[choices.side];
  return side.layers.flatMap((layer, i) => (side.sequences[layer.keys].image ? [i] : []));
}

export const layerOf = (opened: Opened, choices: Choices): number => (
  nearestLayer(layersOf(opened, choices), choices.layer));

// Words mean nothing here.
export function sceneOf(opened: Opened, choices: Choices): Scene {
  const layer = layerOf(opened, choices);
  const side = opened.header.sides[choices.side];
  const seen = prepare(opened, { ...choices, words: false }, choices.side, layer);
  const asked = side.sequences[seen.layer.queries];
  const image = side.sequences[seen.layer.keys].image as Picture; // layersOf has looked
  const own = seen.layer.queries === seen.layer.keys;
  const chosen = choices.queries.filter((each) => each < asked.tokens.length);
  const queries = chosen.length > 0 ? chosen : [usualQuery(image, asked, own)];
  const main = seen.sum(seen.heads, queries);
  return { side, layer, image, seen, asked, own, queries, main };
}

// The first token if it is no patch, else the patch in the middle; of a text the last token.
function usualQuery(image: Picture, asked: Sequence, own: boolean): number {
  if (!own) return asked.tokens.length - 1;
  if (image.first > 0) return 0;
  return Math.floor(image.rows / 2) * image.columns + Math.floor(image.columns / 2);
}

// What flows to the queries through all layers, or null.
export function flowRow(
  opened: Opened, choices: Choices, scene: Scene, kind: FlowKind,
): Float32Array | null {
  const { side, seen, layer } = scene;
  const index = flowPlace(side, kind, layer);
  const ref = index < 0 ? undefined : side.flow[kind]?.[index];
  if (!ref) return null;
  const its = side.layers[side.flow.layers[index]];
  if (its.keys !== seen.layer.keys || its.queries !== seen.layer.queries) return null;
  const row = sumRows(opened.values(ref), seen.keys.length, scene.queries);
  const shown = withoutSinks(row, row.length, sinksOf(side.sequences[its.keys], choices));
  return filter(shown, row.length, choices.threshold, choices.top);
}

export function tokenName({ side, seen, image }: Scene, token: number): string {
  const { text } = side.sequences[seen.layer.keys].tokens[token];
  return isPatch(image, token) ? `patch ${short(text)}` : quoted(text);
}

export function queryName(scene: Scene): string {
  const { queries, own, asked } = scene;
  const what = own ? 'place' : 'token';
  if (queries.length > 1) return `${count(queries.length, what)} together (summed)`;
  return own ? tokenName(scene, queries[0]) : quoted(asked.tokens[queries[0]].text);
}
