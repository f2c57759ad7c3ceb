// Form inputs: a drop-down list, a checkbox, and a pair of step buttons.

import type { Choices } from '../choices';
import type { ControlsProps } from './controls';

interface SelectProps<T extends string> {
  name: string;
  label?: string; // for screen readers, if there is no visible name
  value: T;
  values: [T, string][];
  change: (value: T) => void;
  title?: string;
  disabled?: boolean;
}

export function Select<T extends string>({
  name,
  label,
  value,
  values,
  change,
  title,
  disabled,
}: SelectProps<T>) {
  return (
    <label title={title}>
      {name && <span>{name}</span>}
      <select
        value={value}
        aria-label={label}
        disabled={disabled}
        onChange={(event) => change(event.currentTarget.value as T)}
      >
        {values.map(([each, text]) => (
          <option key={each} value={each} selected={each === value}>
            {text}
          </option>
        ))}
      </select>
    </label>
  );
}

// A control that is a single drop-down list.
export function makeSelect<F extends 'scale' | 'flow' | 'first' | 'separators'>(
  field: F,
  name: string,
  title: string | undefined,
  values: [Choices[F], string][],
) {
  return ({ choices, change }: ControlsProps) => (
    <Select
      {...{ name, title, values }}
      value={choices[field]}
      change={(value) => change({ [field]: value })}
    />
  );
}

interface CheckboxProps {
  name: string;
  checked: boolean;
  title?: string;
  change: (on: boolean) => void;
}

export function Checkbox({ name, checked, title, change }: CheckboxProps) {
  return (
    <label class="check" title={title}>
      <input
        type="checkbox"
        checked={checked}
        onChange={(event) => change(event.currentTarget.checked)}
      />
      <span>{name}</span>
    </label>
  );
}

// `keys`: the keyboard shortcuts for back and forward.
export function StepButtons({
  name,
  keys,
  onStep,
}: {
  name: string;
  keys: string;
  onStep: (by: number) => void;
}) {
  const [back, forward] = [`Previous ${name.toLowerCase()}`, `Next ${name.toLowerCase()}`];
  return (
    <span class="group steps">
      <button
        type="button"
        aria-label={back}
        title={`${back}. Key: ${keys[0]}`}
        onClick={() => onStep(-1)}
      >
        ‹
      </button>
      <button
        type="button"
        aria-label={forward}
        title={`${forward}. Key: ${keys[1]}`}
        onClick={() => onStep(1)}
      >
        ›
      </button>
    </span>
  );
}

export function shorten(text: string, limit: number): string {
  return text.length > limit ? `${text.slice(0, limit - 1)}…` : text;
}
