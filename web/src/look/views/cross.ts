// What the decoder looks at in the encoder's text: the heads' drawing, of the layers between.

import type { Opened } from '../capture';
import type { Choices } from '../choices';
import type { View } from '../view';
import { drawHeads, heads, tableOf, weightsNeeded } from './heads';

export function crossLayers(opened: Opened, choices: Choices): number[] {
  return opened.header.sides[choices.side].layers.flatMap((layer, i) =>
    layer.kind === 'cross' ? [i] : [],
  );
}

// The chosen layer, or the next one that is of this kind.
function layerOf(opened: Opened, choices: Choices): number {
  const all = crossLayers(opened, choices);
  return all.find((each) => each >= choices.layer) ?? all[all.length - 1];
}

export const cross: View = {
  ...heads,
  id: 'cross',
  key: 'r',
  title: 'Cross',
  about: 'Lines from each token that is written to the tokens that were read.',
  missing: (opened, choices) =>
    crossLayers(opened, choices).length
      ? null
      : 'Cross-attention joins an encoder and a decoder; this model has only one of them.',
  layers: crossLayers,
  needs: (opened, choices) => weightsNeeded(choices, layerOf(opened, choices)),
  draw: (frame) => drawHeads(frame, layerOf(frame.opened, frame.choices)),
  table: (frame) => tableOf(frame, layerOf(frame.opened, frame.choices)),
};
