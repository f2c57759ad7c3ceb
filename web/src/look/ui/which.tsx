// Controls for what is looked at: side, layer, token, heads.

import { headName, headTitle, layerName } from '../names';
import { headColor, headDash } from '../../shared/theme';
import type { ControlsProps } from './controls';
import { Check, choice, cut, Select, Stepper } from './inputs';

export function Sides({ opened, choices, change }: ControlsProps) {
  const { sides } = opened.header;
  if (sides.length < 2) return null;
  return (
    <Select
      name="Side"
      value={String(choices.side)}
      values={sides.map((side, i) => [String(i), cut(side.label, 40)])}
      change={(side) => change({ side: Number(side) })}
    />
  );
}

export function Layers({ opened, view, choices, change, stepLayer }: ControlsProps) {
  const side = opened.header.sides[choices.side];
  const all = view.layers?.(opened, choices) ?? side.layers.map((_, i) => i);
  if (!all.length) return null;
  return (
    <span class="group">
      <Select
        name="Layer"
        value={String(choices.layer)}
        title={side.layers[choices.layer]?.name}
        values={all.map((each) => [String(each), layerName(side, each)])}
        change={(layer) => change({ layer: Number(layer) })}
      />
      <Stepper name="Layer" keys="[]" step={stepLayer} />
    </span>
  );
}

export function Steps({ opened, view, choices, change }: ControlsProps) {
  const [first, last, shown] = view.steps?.(opened, choices) ?? [0, 0];
  if (last <= first) return null;
  const now = Math.max(first, Math.min(last, shown ?? choices.step ?? first));
  return (
    <span class="group">
      <label>
        <span>Token</span>
        <input
          type="range"
          class="long"
          min={first}
          max={last}
          value={now}
          aria-label="Token"
          onInput={(event) => change({ step: Number(event.currentTarget.value) })}
        />
        <output class="number">{now}</output>
      </label>
      <Stepper
        name="Token"
        keys=",."
        step={(by) => change({ step: Math.min(last, Math.max(first, now + by)) })}
      />
    </span>
  );
}

export const FlowKind = choice('flow', 'Flow', undefined, [
  ['rollout', 'rollout'],
  ['gradient', 'gradient-weighted'],
]);

// By change heads are ranked in the view that compares.
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

export function Heads({ opened, choices, theme, change, stepHead }: ControlsProps) {
  const layer = opened.header.sides[choices.side].layers[choices.layer];
  if (!layer) return null;
  const all = choices.heads.length === 0;
  const flip = (head: number): number[] =>
    choices.heads.includes(head)
      ? choices.heads.filter((each) => each !== head)
      : [...choices.heads, head].sort((one, other) => one - other);
  return (
    <fieldset class="heads">
      <legend>Heads</legend>
      <button
        type="button"
        class="chip"
        aria-pressed={all}
        title="All heads: a"
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
            title={`${headTitle(layer, head)}. Click: add or take away; double click: it alone`}
            aria-label={headTitle(layer, head)}
            onClick={() => change({ heads: flip(head) })}
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
      <Stepper name="Head" keys="Hh" step={stepHead} />
      <Check
        name="mean"
        on={choices.mean}
        title="The mean of the heads, as one: A"
        change={(mean) => change({ mean })}
      />
    </fieldset>
  );
}

export function Chosen({ choices, change }: ControlsProps) {
  const parts = [
    choices.queries.length
      ? `${choices.queries.length} ${choices.queries.length === 1 ? 'query' : 'queries'}`
      : '',
    choices.key === null ? '' : 'a key',
  ].filter(Boolean);
  if (!parts.length) return null;
  return (
    <span class="group">
      <span class="dim">{parts.join(' and ')} chosen</span>
      <button type="button" title="Escape" onClick={() => change({ queries: [], key: null })}>
        Clear
      </button>
    </span>
  );
}
