// The fields of the look page.

import { TEXT, UNTRAINED } from './look-wish';

export interface Choice {
  key: string; // "run:ID" or "model:ID"
  title: string;
  sees: boolean; // it reads images
}

interface SubjectProps {
  choices: Choice[];
  value: string;
  change: (key: string) => void;
}

export function Subject({ choices, value, change }: SubjectProps) {
  return (
    <label class="field">
      <span>Model</span>
      <select value={value} onChange={(event) => change(event.currentTarget.value)}>
        <Options {...{ choices, value }} />
      </select>
    </label>
  );
}

export function Compare({ choices, value, change, texts }: SubjectProps & { texts: boolean }) {
  return (
    <label class="field">
      <span>Compare with</span>
      <select value={value} onChange={(event) => change(event.currentTarget.value)}>
        {(
          [
            ['', 'nothing'],
            [UNTRAINED, 'the same model, untrained'],
            ...(texts ? [[TEXT, 'the same model, another text']] : []),
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

function Options({ choices, value }: { choices: Choice[]; value: string }) {
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
  enter?: () => void;
}

export function TextField({ name, value, change, placeholder, note, title, look, enter }: TextProps) {
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
          if (!enter || event.key !== 'Enter' || event.shiftKey || event.isComposing) return;
          event.preventDefault();
          enter();
        }}
      />
    </label>
  );
}

// A text or an image: which of them a model reads, only some of them say before.
export function Reads({ image, change }: { image: boolean; change: (image: boolean) => void }) {
  return (
    <div class="choice" role="group" aria-label="What it reads">
      {[false, true].map((each) => (
        <button
          key={String(each)}
          type="button"
          aria-pressed={image === each}
          onClick={() => change(each)}
        >
          {each ? 'An image' : 'A text'}
        </button>
      ))}
    </div>
  );
}
