// The cross view: the heads view for cross-attention layers, from decoder tokens to source tokens.

import type { Capture } from '../capture';
import type { Choices } from '../choices';
import type { View } from '../view';
import { drawHeads, heads, linesTable, weightsNeeded } from './heads';

export function crossLayers(capture: Capture, choices: Choices): number[] {
  return capture.header.sides[choices.side].layers.flatMap((layer, i) =>
    layer.kind === 'cross' ? [i] : [],
  );
}

// The selected layer, or the next cross-attention layer.
function crossLayer(capture: Capture, choices: Choices): number {
  const layers = crossLayers(capture, choices);
  return layers.find((each) => each >= choices.layer) ?? layers[layers.length - 1];
}

export const cross: View = {
  ...heads,
  id: 'cross',
  key: 'r',
  title: 'Cross',
  description: 'Lines from each written token to the source tokens it attends to.',
  missingReason: (capture, choices) =>
    crossLayers(capture, choices).length
      ? null
      : 'This model has no cross-attention: that needs an encoder and a decoder, and it has only one.',
  layers: crossLayers,
  needs: (capture, choices) => weightsNeeded(choices, crossLayer(capture, choices)),
  draw: (frame) => drawHeads(frame, crossLayer(frame.capture, frame.choices)),
  table: (frame) => linesTable(frame, crossLayer(frame.capture, frame.choices)),
};
