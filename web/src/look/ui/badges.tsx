// What a person should know before believing a picture.

import type { Opened } from '../capture';
import { checkOf } from '../check';
import type { Choices } from '../choices';
import type { LayerInfo } from '../format';

export function Badges({ opened, choices }: { opened: Opened; choices: Choices }) {
  const side = opened.header.sides[choices.side];
  const layer = side.layers[choices.layer];
  const notes = [...opened.header.notes, ...(layer?.note ? [`This layer: ${layer.note}`] : [])];
  const { kind, parameters } = side.model;
  return (
    <div class="badges">
      {opened.header.sides.length > 1 && <span class="badge">{side.label}</span>}
      <Difference layers={side.layers} />
      {layer && layer.weights.error > 0 && (
        <span
          class="badge"
          title="As a share of the largest weight of its row; small weights are closer."
        >
          rounded to ±{percent(layer.weights.error)}
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
          {parameters > 0 ? `, ${size(parameters)} parameters` : ''}
        </span>
      )}
      {layer && layer.heads.length < layer.all_heads && (
        <span class="badge">
          {layer.heads.length} of {layer.all_heads} heads kept
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

function Difference({ layers }: { layers: LayerInfo[] }) {
  const { state, said, title } = checkOf(layers);
  return (
    <span class={`badge ${state}`} title={title}>
      {said}
    </span>
  );
}

function percent(share: number): string {
  return `${Number((share * 100).toPrecision(2))} %`;
}

function size(parameters: number): string {
  const units: [number, string][] = [
    [1e9, ' billion'],
    [1e6, ' million'],
    [1e3, ' thousand'],
  ];
  const [unit, name] = units.find(([each]) => parameters >= each) ?? [1, ''];
  return `${Number((parameters / unit).toPrecision(3))}${name}`;
}
