// Labeled inputs: sliders, checkboxes, choices, steppers and number boxes.

import type { ComponentChildren } from 'preact';
import { useState } from 'preact/hooks';
import { formatShort } from '../report/number-format';
import { RANGES, type SliderRange, type SliderName } from './page-state';

const LOG_STEPS = 200; // steps of a logarithmic slider

interface SliderProps<K extends SliderName> {
  values: Record<K, number>;
  field: K;
  name: string;
  label?: string; // for screen readers, if the name is not enough
  text?: string; // text instead of the number
  change: (changes: Record<K, number>) => void;
}

// A slider for one number of the settings.
export function SettingSlider<K extends SliderName>(props: SliderProps<K>) {
  const { values, field, name, label = name, change } = props;
  const { low, high, step = 1, log = false, zero = false }: SliderRange = RANGES[field];
  const value = values[field];
  const { text = formatShort(value) } = props;
  const ratio = Math.log(high / low);
  const position = value <= 0 ? 0 : Math.round((LOG_STEPS * Math.log(value / low)) / ratio);
  const valueAtPosition = (position: number): number =>
    zero && position === 0
      ? 0
      : Number((low * Math.exp((ratio * position) / LOG_STEPS)).toPrecision(3));
  return (
    <label class="slider">
      <span>{name}</span>
      <output class="number">{text}</output>
      <input
        type="range"
        aria-label={label}
        aria-valuetext={text}
        min={log ? 0 : low}
        max={log ? LOG_STEPS : high}
        step={log ? 1 : step}
        value={log ? Math.max(0, Math.min(LOG_STEPS, position)) : value}
        onInput={(event) => {
          const position = Number(event.currentTarget.value);
          change({ [field]: log ? valueAtPosition(position) : position } as Record<K, number>);
        }}
      />
    </label>
  );
}

export function Checkbox(props: {
  name: ComponentChildren;
  checked: boolean;
  onChange: (on: boolean) => void;
  label?: string;
}) {
  return (
    <label class="check">
      <input
        type="checkbox"
        aria-label={props.label}
        checked={props.checked}
        onChange={(event) => props.onChange(event.currentTarget.checked)}
      />
      <span>{props.name}</span>
    </label>
  );
}

interface ChoiceButtonsProps<T extends string> {
  label: string;
  value: T;
  options: [T, string][];
  onChange: (value: T) => void;
}

export function ChoiceButtons<T extends string>({
  label,
  value,
  options,
  onChange,
}: ChoiceButtonsProps<T>) {
  return (
    <span class="choice" role="group" aria-label={label}>
      {options.map(([each, name]) => (
        <button
          key={each}
          type="button"
          aria-pressed={each === value}
          onClick={() => onChange(each)}
        >
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
  onChange: (value: number) => void;
}) {
  const { name, value, low, high, onChange } = props;
  return (
    <span class="stepper" role="group" aria-label={name}>
      <span>{name}</span>
      <button
        type="button"
        aria-label={`fewer ${name}`}
        disabled={value <= low}
        onClick={() => onChange(value - 1)}
      >
        −
      </button>
      <output class="number">{value}</output>
      <button
        type="button"
        aria-label={`more ${name}`}
        disabled={value >= high}
        onClick={() => onChange(value + 1)}
      >
        +
      </button>
    </span>
  );
}

// A number field. Incomplete input ("-", "1.") stays until it is a number.
export function NumberBox(props: {
  label: string;
  value: number;
  onChange: (value: number) => void;
}) {
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
          props.onChange(value);
      }}
      onBlur={() => setTyped(null)}
    />
  );
}
