// Small things that every page needs.

import type { ComponentChildren } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { plain } from '../report/prose';
import { told } from './api';
import { useClient } from './client';
import { percent, shellWord } from './format';
import type { Ability, Run } from './reading';

export function Failure({ text }: { text: string }) {
  return text ? (
    <p class="message warn" role="alert">
      {plain(text)}
    </p>
  ) : null;
}

// What to type where there is nothing to show: words, then a file or folder among the runs, or theirs.
export function Command({ words, of = '' }: { words: string; of?: string }) {
  const { info } = useClient();
  const path = [info?.runsFolder || 'runs', of].filter(Boolean).join('/');
  const text = `${words} ${shellWord(plain(path))}`;
  const [copied, setCopied] = useState(false);
  const copy = (): void => {
    void navigator.clipboard?.writeText(text).then(
      () => setCopied(true),
      () => undefined,
    );
  };
  return (
    <p class="command">
      <code>{text}</code>
      <button type="button" class="plainly" onClick={copy}>
        {copied ? 'Copied' : 'Copy'}
      </button>
    </p>
  );
}

export function Empty({ title, children }: { title: string; children: ComponentChildren }) {
  return (
    <div class="empty">
      <h2>{title}</h2>
      {children}
    </div>
  );
}

export function Busy({ text }: { text: string }) {
  return (
    <p class="busy dim" role="status">
      <span class="spin" aria-hidden="true" />
      {text}
    </p>
  );
}

interface PickerProps {
  label: string;
  can: Ability[];
  value: string;
  change: (run: string) => void;
  none: ComponentChildren; // where there is no such run
}

// The runs that can do one of these things, the newest first.
export function useRuns(...can: Ability[]): Run[] | null {
  const { runs } = useClient();
  if (!runs) return null;
  const able = runs.filter((run) => can.some((each) => run.can.includes(each)));
  return able.sort((one, other) => (other.updated ?? 0) - (one.updated ?? 0));
}

export function RunPicker({ label, can, value, change, none }: PickerProps) {
  const runs = useRuns(...can);
  const { failure } = useClient();
  if (!runs) return failure ? <Failure text={failure} /> : <Busy text="Reading the runs…" />;
  if (!runs.length) return <>{none}</>;
  return (
    <label class="field">
      <span>{label}</span>
      <select value={value} onChange={(event) => change(event.currentTarget.value)}>
        {!runs.some((run) => run.id === value) && value && (
          <option value={value} selected>
            {plain(value)}
          </option>
        )}
        {runs.map((run) => (
          <option key={run.id} value={run.id} selected={run.id === value}>
            {runTitle(run)}
          </option>
        ))}
      </select>
    </label>
  );
}

export function runTitle(run: Run): string {
  const more = [run.attention, run.state === 'training' ? 'training' : ''].filter(Boolean);
  return plain(`${run.id === '.' ? run.name : run.id}${more.length ? ` (${more.join(', ')})` : ''}`);
}

// A share as a bar with its number; marks are levels on it.
export function Share(props: { value: number; look?: string; marks?: [number, string][] }) {
  const { value, look = '', marks = [] } = props;
  const wide = `${100 * Math.min(1, Math.max(0, Number.isFinite(value) ? value : 0))}%`;
  return (
    <span class={`share ${look}`}>
      <span class="track" aria-hidden="true">
        <span class="fill" style={{ width: wide }} />
        {marks.map(([at, name]) => (
          <i key={name} class="mark" title={name} style={{ left: `${100 * at}%` }} />
        ))}
      </span>
      <span class="number">{percent(value)}</span>
    </span>
  );
}

export interface NumberProps {
  name: string;
  value: string;
  change: (value: string) => void;
  low: number;
  high: number;
  step?: number;
  placeholder?: string;
  title?: string;
  disabled?: boolean;
}

export function NumberField({ name, value, change, low, high, step = 1, ...more }: NumberProps) {
  const { placeholder, title, disabled } = more;
  return (
    <label class="field small-field" title={title}>
      <span>{name}</span>
      <input
        type="number"
        min={low}
        max={high}
        step={step}
        value={value}
        disabled={disabled}
        placeholder={placeholder}
        onInput={(event) => change(event.currentTarget.value)}
      />
    </label>
  );
}

// Something that takes time, one at a time; the last one counts, and leaving the page ends it.
export function useWork(): {
  busy: boolean;
  failure: string;
  run: (work: (signal: AbortSignal) => Promise<void>) => void;
  stop: () => void;
} {
  const [state, setState] = useState({ busy: false, failure: '' });
  const controller = useRef<AbortController | null>(null);
  useEffect(() => () => controller.current?.abort(), []);
  const stop = (): void => {
    controller.current?.abort();
    controller.current = null;
    setState({ busy: false, failure: '' });
  };
  const run = (work: (signal: AbortSignal) => Promise<void>): void => {
    controller.current?.abort();
    const own = new AbortController();
    controller.current = own;
    setState({ busy: true, failure: '' });
    const done = (failure: string): void => {
      if (controller.current !== own) return;
      controller.current = null;
      setState({ busy: false, failure });
    };
    work(own.signal).then(
      () => done(''),
      (error: unknown) => done(own.signal.aborted ? '' : told(error)),
    );
  };
  return { ...state, run, stop };
}
