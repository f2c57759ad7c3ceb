// Badges: facts to know before trusting a drawing.

import type { Capture } from '../capture';
import { summarizeCheck } from '../self-check';
import type { Choices } from '../choices';
import type { LayerInfo } from '../capture-format';

export function Badges({ capture, choices }: { capture: Capture; choices: Choices }) {
  const side = capture.header.sides[choices.side];
  const layer = side.layers[choices.layer];
  const notes = [...capture.header.notes, ...(layer?.note ? [`This layer: ${layer.note}`] : [])];
  const { kind, parameters } = side.model;
  return (
    <div class="badges">
      {capture.header.sides.length > 1 && <span class="badge">{side.label}</span>}
      <CheckBadge layers={side.layers} />
      {layer && layer.weights.error > 0 && (
        <span
          class="badge"
          title="Rounding error as a fraction of the largest weight in the row; smaller weights have smaller errors."
        >
          rounded to ±{formatPercent(layer.weights.error)}
        </span>
      )}
      {layer && (
        <span class="badge">
          {layer.mechanism}
          {layer.signed ? ', signed weights' : ''}
          {layer.normalised ? '' : ', rows need not sum to 1'}
        </span>
      )}
      {kind && (
        <span class="badge">
          {kind}
          {parameters > 0 ? `, ${formatCount(parameters)} parameters` : ''}
        </span>
      )}
      {layer && layer.heads.length < layer.all_heads && (
        <span class="badge">
          {layer.heads.length} of {layer.all_heads} heads captured
        </span>
      )}
      {notes.length > 0 && (
        <details class="badge notes">
          <summary>{notes.length === 1 ? '1 note' : `${notes.length} notes`}</summary>
          <ul>
            {notes.map((note, i) => (
              <li key={i}>{note}</li>
            ))}
          </ul>
        </details>
      )}
    </div>
  );
}

function CheckBadge({ layers }: { layers: LayerInfo[] }) {
  const { state, text, title } = summarizeCheck(layers);
  return (
    <span class={`badge ${state}`} title={title}>
      {text}
    </span>
  );
}

function formatPercent(fraction: number): string {
  return `${Number((fraction * 100).toPrecision(2))} %`;
}

function formatCount(parameters: number): string {
  const units: [number, string][] = [
    [1e9, ' billion'],
    [1e6, ' million'],
    [1e3, ' thousand'],
  ];
  const [unit, name] = units.find(([each]) => parameters >= each) ?? [1, ''];
  return `${Number((parameters / unit).toPrecision(3))}${name}`;
}
