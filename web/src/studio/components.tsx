// Components and hooks that several pages use.

import type { ComponentChildren } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { plainText } from '../report/text-format';
import { errorMessage } from './api';
import { useWindowState, useRemembered } from './window-state';
import { formatPercent, quoteForShell } from './format';
import type { Run } from './api-helpers';
import type { Router } from './router';

export function Failure({ text }: { text: string }) {
  return text ? (
    <p class="message warn" role="alert">
      {plainText(text)}
    </p>
  ) : null;
}

// A command to copy: its words, then a path below the runs folder, or that folder.
export function Command({ words, path = '' }: { words: string; path?: string }) {
  const { info } = useWindowState();
  const [copied, setCopied] = useState(false);
  if (!info) return null; // the runs folder is not known yet
  const fullPath = [info.runs_folder, path].filter(Boolean).join('/');
  const text = `${words} ${quoteForShell(plainText(fullPath))}`;
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

export function EmptyPage({ title, children }: { title: string; children: ComponentChildren }) {
  return (
    <div class="empty">
      <h2>{title}</h2>
      {children}
    </div>
  );
}

// Commands that train a first run with one of these capabilities, or with any.
export function Examples({ can }: { can?: string[] }) {
  const tasks = useWindowState().info?.tasks ?? [];
  const suitable = tasks.filter((task) => !can || can.some((name) => task.can.includes(name)));
  return (
    <>
      {suitable.map(
        ({ name, example }) =>
          example && (
            <div key={name}>
              <p>{plainText(example.sentence)}</p>
              <Command words={plainText(example.command)} path={example.folder} />
            </div>
          ),
      )}
    </>
  );
}

export function BusyMessage({ text }: { text: string }) {
  return (
    <p class="busy dim" role="status">
      <span class="spin" aria-hidden="true" />
      {text}
    </p>
  );
}

interface PickerProps {
  can: string[];
  router: Router;
  none: ComponentChildren; // shown if there is no suitable run
  children: (run: string) => ComponentChildren;
}

// The runs with one of these capabilities, newest first.
export function useRuns(...can: string[]): Run[] | null {
  const { runs } = useWindowState();
  if (!runs) return null;
  const suitable = runs.filter((run) => can.some((name) => run.can.includes(name)));
  return suitable.sort((one, other) => (other.updated ?? 0) - (one.updated ?? 0));
}

// The option in the address, else the last selected one, else the first. It is then written to the
// address, because the order of options changes while runs train.
export function useChoice(router: Router, field: string, options: string[]): string {
  const [last, remember] = useRemembered(`${router.route.page} ${field}`, '');
  const inAddress = router.one(field);
  const selected = inAddress || (options.includes(last) ? last : (options[0] ?? ''));
  useEffect(() => {
    if (!selected) return;
    if (selected !== last) remember(selected);
    if (!inAddress) router.fill({ [field]: [selected] });
  }, [selected, inAddress]);
  return selected;
}

export function RunPicker({ can, router, none, children }: PickerProps) {
  const runs = useRuns(...can);
  const { failure, runs: all } = useWindowState();
  const selected = useChoice(router, 'run', (runs ?? []).map(({ id }) => id));
  if (!runs) return failure ? <Failure text={failure} /> : <BusyMessage text="Reading the runs…" />;
  if (!runs.length) return <>{none}</>;
  const suitable = runs.some(({ id }) => id === selected);
  const exists = all?.some(({ id }) => id === selected);
  return (
    <>
      <label class="field">
        <span>Run</span>
        <select
          value={selected}
          onChange={(event) => router.set({ run: [event.currentTarget.value] }, '')}
        >
          {!suitable && (
            <option value={selected} selected>
              {plainText(selected)}
            </option>
          )}
          {runs.map((run) => (
            <option key={run.id} value={run.id} selected={run.id === selected}>
              {runTitle(run)}
            </option>
          ))}
        </select>
      </label>
      {suitable ? (
        children(selected)
      ) : (
        <Failure text={`${selected}: this run ${exists ? 'cannot do this' : 'no longer exists'}. Choose another one.`} />
      )}
    </>
  );
}

export function runTitle(run: Run): string {
  const more = [run.attention, run.state === 'training' ? 'training' : ''].filter(Boolean);
  return plainText(`${run.id === '.' ? run.name : run.id}${more.length ? ` (${more.join(', ')})` : ''}`);
}

// A fraction as a bar with its number; marks are thresholds on it.
export function FractionBar(props: { value: number; look?: string; marks?: [number, string][] }) {
  const { value, look = '', marks = [] } = props;
  const width = `${100 * Math.min(1, Math.max(0, Number.isFinite(value) ? value : 0))}%`;
  return (
    <span class={`share ${look}`}>
      <span class="track" aria-hidden="true">
        <span class="fill" style={{ width }} />
        {marks.map(([position, name]) => (
          <i key={name} class="mark" title={name} style={{ left: `${100 * position}%` }} />
        ))}
      </span>
      <span class="number">{formatPercent(value)}</span>
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

// Runs one asynchronous task at a time. A new task, or leaving the page, aborts the old one.
export function useTask(): {
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
      (error: unknown) => done(own.signal.aborted ? '' : errorMessage(error)),
    );
  };
  return { ...state, run, stop };
}
