// The layer that a view shows where it cannot show every one.

// Of these layers the one nearest to what was chosen.
export function nearestLayer(layers: number[], chosen: number): number {
  return layers.reduce((best, each) => (
    Math.abs(each - chosen) < Math.abs(best - chosen) ? each : best), layers[0]);
}
