// A list to choose from, and a box to tick.

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

export function Check({
  name,
  on,
  title,
  change,
}: {
  name: string;
  on: boolean;
  title?: string;
  change: (on: boolean) => void;
}) {
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

export function cut(text: string, limit: number): string {
  return text.length > limit ? `${text.slice(0, limit - 1)}…` : text;
}
