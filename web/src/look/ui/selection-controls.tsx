// Controls that select what to display: side, layer, token, flow, order, heads.

import { headName, headTitle, layerName } from '../names';
import { headColor, headDash } from '../../shared/theme';
import type { Choices } from '../choices';
import { otherText, vectorsMode } from '../views/neurons-texts';
import type { ControlsProps } from './controls';
import { Checkbox, makeSelect, shorten, Select, StepButtons } from './inputs';

export function SideSelect({ capture, choices, change }: ControlsProps) {
  const { sides } = capture.header;
  if (sides.length < 2) return null;
  return (
    <Select
      name="Side"
      value={String(choices.side)}
      values={sides.map((side, i) => [String(i), shorten(side.label, 40)])}
      change={(side) => change({ side: Number(side) })}
    />
  );
}

export function Layers({ capture, view, choices, change, stepLayer }: ControlsProps) {
  const side = capture.header.sides[choices.side];
  const layers = view.layers?.(capture, choices) ?? side.layers.map((_, i) => i);
  if (!layers.length) return null;
  return (
    <span class="group">
      <Select
        name="Layer"
        value={String(choices.layer)}
        title={side.layers[choices.layer]?.name}
        values={layers.map((each) => [String(each), layerName(side, each)])}
        change={(layer) => change({ layer: Number(layer) })}
      />
      <StepButtons name="Layer" keys="[]" onStep={stepLayer} />
    </span>
  );
}

export function Steps({ capture, view, choices, change }: ControlsProps) {
  const [first, last, displayed] = view.steps?.(capture, choices) ?? [0, 0];
  if (last <= first) return null;
  const step = Math.max(first, Math.min(last, displayed ?? choices.step ?? first));
  return (
    <span class="group">
      <label>
        <span>Token</span>
        <input
          type="range"
          class="long"
          min={first}
          max={last}
          value={step}
          aria-label="Token"
          onInput={(event) => change({ step: Number(event.currentTarget.value) })}
        />
        <output class="number">{step}</output>
      </label>
      <StepButtons
        name="Token"
        keys=",."
        onStep={(by) => change({ step: Math.min(last, Math.max(first, step + by)) })}
      />
    </span>
  );
}

export const FlowKind = makeSelect('flow', 'Flow', undefined, [
  ['rollout', 'rollout'],
  ['gradient', 'gradient-weighted'],
]);

export function Vectors({ capture, choices, change }: ControlsProps) {
  const modes: [Choices['vectors'], string][] = [['pair', 'one key'], ['keys', 'all keys']];
  if (otherText(capture, choices)) modes.push(['texts', 'two texts']);
  return (
    <Select
      name="Show"
      value={vectorsMode(capture, choices)}
      values={modes}
      change={(vectors) => change({ vectors: vectors as Choices['vectors'] })}
    />
  );
}

// The third order, by change, belongs to the compare view.
export function Order({ choices, change }: ControlsProps) {
  return (
    <Select
      name="Order by"
      value={choices.order === 'pattern' ? 'pattern' : 'layer'}
      values={[
        ['layer', 'layer'],
        ['pattern', 'pattern'],
      ]}
      change={(order) => change({ order })}
    />
  );
}

export function Heads({ capture, choices, theme, change, stepHead }: ControlsProps) {
  const layer = capture.header.sides[choices.side].layers[choices.layer];
  if (!layer) return null;
  const allHeads = choices.heads.length === 0;
  const toggleHead = (head: number): number[] =>
    choices.heads.includes(head)
      ? choices.heads.filter((each) => each !== head)
      : [...choices.heads, head].sort((one, other) => one - other);
  return (
    <fieldset class="heads">
      <legend>Heads</legend>
      <button
        type="button"
        class="chip"
        aria-pressed={allHeads}
        title="All heads. Key: a"
        onClick={() => change({ heads: [] })}
      >
        all
      </button>
      <span class="chips">
        {layer.heads.map((_, head) => (
          <button
            key={head}
            type="button"
            class="chip"
            aria-pressed={choices.heads.includes(head)}
            title={`${headTitle(layer, head)}. Click to add or remove it, double-click to select it alone`}
            aria-label={headTitle(layer, head)}
            onClick={() => change({ heads: toggleHead(head) })}
            onDblClick={() => change({ heads: [head] })}
          >
            <svg width="16" height="4" aria-hidden="true">
              <line
                x1="0"
                y1="2"
                x2="16"
                y2="2"
                stroke={theme.color(headColor(head))}
                stroke-width="4"
                stroke-dasharray={headDash(head).join(' ')}
              />
            </svg>
            {headName(layer, head)}
          </button>
        ))}
      </span>
      <StepButtons name="Head" keys="Hh" onStep={stepHead} />
      <Checkbox
        name="mean"
        checked={choices.mean}
        title="Show the mean of the heads. Key: A"
        change={(mean) => change({ mean })}
      />
    </fieldset>
  );
}

export function SelectedTokens({ choices, change }: ControlsProps) {
  const counts = [
    choices.queries.length
      ? `${choices.queries.length} ${choices.queries.length === 1 ? 'query' : 'queries'}`
      : '',
    choices.key === null ? '' : 'a key',
  ].filter(Boolean);
  if (!counts.length) return null;
  return (
    <span class="group">
      <span class="dim wide">{counts.join(' and ')} selected</span>
      <button
        type="button"
        title="Clear the selection. Key: Escape"
        onClick={() => change({ queries: [], key: null })}
      >
        Clear
      </button>
    </span>
  );
}
