// A list to choose from, a box to tick, and two buttons that step.

import type { Choices } from '../choices';
import type { ControlsProps } from './controls';

interface SelectProps<T extends string> {
  name: string;
  label?: string; // where no name is seen
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

// A control that is one list.
export function choice<F extends 'scale' | 'flow' | 'first' | 'separators'>(
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

interface CheckProps {
  name: string;
  on: boolean;
  title?: string;
  change: (on: boolean) => void;
}

export function Check({ name, on, title, change }: CheckProps) {
  return (
    <label class="check" title={title}>
      <input
        type="checkbox"
        checked={on}
        onChange={(event) => change(event.currentTarget.checked)}
      />
      <span>{name}</span>
    </label>
  );
}

// `keys`: those that step back and on.
export function Stepper({ name, keys, step }: { name: string; keys: string; step: (by: number) => void }) {
  const [back, on] = [`${name} before`, `Next ${name.toLowerCase()}`];
  return (
    <>
      <button type="button" aria-label={back} title={`${back}: ${keys[0]}`} onClick={() => step(-1)}>
        ‹
      </button>
      <button type="button" aria-label={on} title={`${on}: ${keys[1]}`} onClick={() => step(1)}>
        ›
      </button>
    </>
  );
}

export function cut(text: string, limit: number): string {
  return text.length > limit ? `${text.slice(0, limit - 1)}…` : text;
}
