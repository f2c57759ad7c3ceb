// The layer that a view displays if it cannot show every layer.

// The layer nearest to the selected one.
export function nearestLayer(layers: number[], selected: number): number {
  return layers.reduce((best, each) => (
    Math.abs(each - selected) < Math.abs(best - selected) ? each : best), layers[0]);
}
