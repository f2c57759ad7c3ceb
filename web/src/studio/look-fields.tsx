// The form fields of the look page.

import { OTHER_TEXT, UNTRAINED } from './look-request';

export interface ModelChoice {
  key: string; // "run:ID" or "model:ID"
  title: string;
  readsImages: boolean;
}

interface SelectProps {
  choices: ModelChoice[];
  value: string;
  change: (key: string) => void;
}

export function ModelSelect({ choices, value, change }: SelectProps) {
  return (
    <label class="field">
      <span>Model</span>
      <select value={value} onChange={(event) => change(event.currentTarget.value)}>
        <Options {...{ choices, value }} />
      </select>
    </label>
  );
}

export function CompareSelect({ choices, value, change, texts }: SelectProps & { texts: boolean }) {
  return (
    <label class="field">
      <span>Compare with</span>
      <select value={value} onChange={(event) => change(event.currentTarget.value)}>
        {(
          [
            ['', 'nothing'],
            [UNTRAINED, 'the same model, untrained'],
            ...(texts ? [[OTHER_TEXT, 'the same model, another text']] : []),
          ] as [string, string][]
        ).map(([key, title]) => (
          <option key={key} value={key} selected={key === value}>
            {title}
          </option>
        ))}
        <Options {...{ choices, value }} />
      </select>
    </label>
  );
}

function Options({ choices, value }: { choices: ModelChoice[]; value: string }) {
  return (
    <>
      {choices.map(({ key, title }) => (
        <option key={key} value={key} selected={key === value}>
          {title}
        </option>
      ))}
    </>
  );
}

interface TextProps {
  name: string;
  value: string;
  change: (text: string) => void;
  placeholder?: string;
  note?: string;
  title?: string;
  look?: string;
  onEnter?: () => void;
}

export function TextField({ name, value, change, placeholder, note, title, look, onEnter }: TextProps) {
  return (
    <label class={`field wide-field ${look ?? ''}`} title={title}>
      <span>
        {name}
        {note && <span class="dim"> {note}</span>}
      </span>
      <textarea
        rows={2}
        value={value}
        spellcheck={false}
        placeholder={placeholder}
        onInput={(event) => change(event.currentTarget.value)}
        onKeyDown={(event) => {
          if (!onEnter || event.key !== 'Enter' || event.shiftKey || event.isComposing) return;
          event.preventDefault();
          onEnter();
        }}
      />
    </label>
  );
}

// A text or an image: only for some models the page knows which of them they read.
export function InputKindSwitch({ image, change }: { image: boolean; change: (image: boolean) => void }) {
  return (
    <div class="choice" role="group" aria-label="Input">
      {[false, true].map((isImage) => (
        <button
          key={String(isImage)}
          type="button"
          aria-pressed={image === isImage}
          onClick={() => change(isImage)}
        >
          {isImage ? 'An image' : 'A text'}
        </button>
      ))}
    </div>
  );
}
