// Data of the image view: the picture, the queries, and their attention weights.

import type { Capture } from '../capture';
import type { Choices } from '../choices';
import type { Picture, Sequence, Side } from '../capture-format';
import { applyCutoffs, prepareWeights, sinkModes, sumRows, withoutSinks,
  type PreparedWeights } from '../prepare-weights';
import { count, quoted, short } from '../../shared/readable-text';
import { flowMapIndex, type FlowKind } from './flow-data';
import { nearestLayer } from './nearest-layer';
import { isPatch } from './image-marks';

export interface ImageScene {
  side: Side;
  layer: number;
  image: Picture;
  prepared: PreparedWeights;
  querySequence: Sequence; // tokens of the queries
  selfAttention: boolean; // the queries are tokens of the same picture
  queries: number[];
  weights: Float32Array; // weights of all queries together, mean of the selected heads
}

// Layers whose keys are patches of a picture.
export function imageLayers(capture: Capture, choices: Choices): number[] {
  const side = capture.header.sides[choices.side];
  return side.layers.flatMap((layer, i) => (side.sequences[layer.keys].image ? [i] : []));
}

export const nearestImageLayer = (capture: Capture, choices: Choices): number => (
  nearestLayer(imageLayers(capture, choices), choices.layer));

// Does not merge words: patches have none.
export function makeScene(capture: Capture, choices: Choices): ImageScene {
  const layer = nearestImageLayer(capture, choices);
  const side = capture.header.sides[choices.side];
  const prepared = prepareWeights(capture, { ...choices, words: false }, choices.side, layer);
  const querySequence = side.sequences[prepared.layer.queries];
  const image = side.sequences[prepared.layer.keys].image as Picture; // imageLayers has checked it
  const selfAttention = prepared.layer.queries === prepared.layer.keys;
  const selected = choices.queries.filter((each) => each < querySequence.tokens.length);
  const queries = selected.length > 0 ? selected
    : [defaultQuery(image, querySequence, selfAttention)];
  const weights = prepared.sum(prepared.heads, queries);
  return { side, layer, image, prepared, querySequence, selfAttention, queries, weights };
}

// The first token if it is not a patch, else the patch in the middle; for a text the last token.
function defaultQuery(image: Picture, querySequence: Sequence, selfAttention: boolean): number {
  if (!selfAttention) return querySequence.tokens.length - 1;
  if (image.first > 0) return 0;
  return Math.floor(image.rows / 2) * image.columns + Math.floor(image.columns / 2);
}

// Attention of the queries through all layers, or null if it was not captured.
export function flowRow(
  capture: Capture, choices: Choices, scene: ImageScene, kind: FlowKind,
): Float32Array | null {
  const { side, prepared, layer } = scene;
  const index = flowMapIndex(side, kind, layer);
  const ref = index < 0 ? undefined : side.flow[kind]?.[index];
  if (!ref) return null;
  const flowLayer = side.layers[side.flow.layers[index]];
  if (flowLayer.keys !== prepared.layer.keys
    || flowLayer.queries !== prepared.layer.queries) return null;
  const row = sumRows(capture.values(ref), prepared.keys.length, scene.queries);
  const visible = withoutSinks(row, row.length, sinkModes(side.sequences[flowLayer.keys], choices));
  return applyCutoffs(visible, row.length, choices.threshold, choices.top);
}

export function tokenName({ side, prepared, image }: ImageScene, token: number): string {
  const { text } = side.sequences[prepared.layer.keys].tokens[token];
  return isPatch(image, token) ? `patch ${short(text)}` : quoted(text);
}

export function queryName(scene: ImageScene): string {
  const { queries, selfAttention, querySequence } = scene;
  const noun = selfAttention ? 'patch' : 'token';
  if (queries.length > 1) return `${count(queries.length, noun)} together (summed)`;
  return selfAttention ? tokenName(scene, queries[0])
    : quoted(querySequence.tokens[queries[0]].text);
}
