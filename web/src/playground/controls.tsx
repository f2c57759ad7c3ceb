// Sliders, switches and number boxes with their names.

import type { ComponentChildren } from 'preact';
import { useState } from 'preact/hooks';
import { short } from '../report/numbers';
import { RANGES, type Range, type Ranged } from './state';

const PLACES = 200; // of a logarithmic slider

interface SettingProps<K extends Ranged> {
  of: Record<K, number>;
  field: K;
  name: string;
  label?: string; // for those who hear it, where the name is not enough
  shown?: string; // else the number
  change: (some: Record<K, number>) => void;
}

// A slider for one of several numbers.
export function Setting<K extends Ranged>(props: SettingProps<K>) {
  const { of, field, name, label = name, change } = props;
  const { low, high, step = 1, log = false, zero = false }: Range = RANGES[field];
  const value = of[field];
  const { shown = short(value) } = props;
  const ratio = Math.log(high / low);
  const place = value <= 0 ? 0 : Math.round((PLACES * Math.log(value / low)) / ratio);
  const valueAt = (at: number): number =>
    zero && at === 0 ? 0 : Number((low * Math.exp((ratio * at) / PLACES)).toPrecision(3));
  return (
    <label class="slider">
      <span>{name}</span>
      <output class="number">{shown}</output>
      <input
        type="range"
        aria-label={label}
        aria-valuetext={shown}
        min={log ? 0 : low}
        max={log ? PLACES : high}
        step={log ? 1 : step}
        value={log ? Math.max(0, Math.min(PLACES, place)) : value}
        onInput={(event) => {
          const at = Number(event.currentTarget.value);
          change({ [field]: log ? valueAt(at) : at } as Record<K, number>);
        }}
      />
    </label>
  );
}

export function Check(props: {
  name: ComponentChildren;
  on: boolean;
  set: (on: boolean) => void;
  label?: string;
}) {
  return (
    <label class="check">
      <input
        type="checkbox"
        aria-label={props.label}
        checked={props.on}
        onChange={(event) => props.set(event.currentTarget.checked)}
      />
      <span>{props.name}</span>
    </label>
  );
}

interface ChoiceProps<T extends string> {
  label: string;
  value: T;
  all: [T, string][];
  set: (value: T) => void;
}

export function Choice<T extends string>({ label, value, all, set }: ChoiceProps<T>) {
  return (
    <span class="choice" role="group" aria-label={label}>
      {all.map(([each, name]) => (
        <button key={each} type="button" aria-pressed={each === value} onClick={() => set(each)}>
          {name}
        </button>
      ))}
    </span>
  );
}

export function Stepper(props: {
  name: string;
  value: number;
  low: number;
  high: number;
  set: (value: number) => void;
}) {
  const { name, value, low, high, set } = props;
  return (
    <span class="stepper" role="group" aria-label={name}>
      <span>{name}</span>
      <button
        type="button"
        aria-label={`fewer ${name}`}
        disabled={value <= low}
        onClick={() => set(value - 1)}
      >
        −
      </button>
      <output class="number">{value}</output>
      <button
        type="button"
        aria-label={`more ${name}`}
        disabled={value >= high}
        onClick={() => set(value + 1)}
      >
        +
      </button>
    </span>
  );
}

// A number that is typed; half of one ("-", "1.") stays until it is whole.
export function NumberBox(props: { label: string; value: number; set: (value: number) => void }) {
  const [typed, setTyped] = useState<string | null>(null);
  return (
    <input
      type="number"
      class="number-box number"
      step="0.1"
      aria-label={props.label}
      value={typed ?? String(props.value)}
      onInput={(event) => {
        const text = event.currentTarget.value;
        setTyped(text);
        const value = Number(text);
        if (text.trim() !== '' && Number.isFinite(value) && Math.abs(value) <= 1000)
          props.set(value);
      }}
      onBlur={() => setTyped(null)}
    />
  );
}
