// Which layer a view shows where it cannot show every one, and what a side is called.

import type { Side } from '../format';
import { inCell, isolate } from '../../shared/text';

// Of these layers the one nearest to what was chosen.
export function nearestLayer(layers: number[], chosen: number): number {
  return layers.reduce((best, each) => (
    Math.abs(each - chosen) < Math.abs(best - chosen) ? each : best), layers[0]);
}

// A label comes from a file: nothing in it is invisible, or turns the sentence around.
export const sideName = (side: Side): string => isolate(inCell(side.label));
