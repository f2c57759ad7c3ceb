// Small things that every page needs.

import type { ComponentChildren } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { plain } from '../report/prose';
import { told } from './api';
import { useClient, useKept } from './client';
import { percent, shellWord } from './format';
import type { Run } from './reading';
import type { Router } from './router';

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
  const [copied, setCopied] = useState(false);
  if (!info) return null; // where they lie is not known yet
  const path = [info.runs_folder, of].filter(Boolean).join('/');
  const text = `${words} ${shellWord(plain(path))}`;
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

// Commands that train a first run: one that can do one of these things, or any.
export function Examples({ can }: { can?: string[] }) {
  const tasks = useClient().info?.tasks ?? [];
  const able = tasks.filter((task) => !can || can.some((each) => task.can.includes(each)));
  return (
    <>
      {able.map(
        ({ name, example }) =>
          example && (
            <div key={name}>
              <p>{plain(example.sentence)}</p>
              <Command words={plain(example.command)} of={example.folder} />
            </div>
          ),
      )}
    </>
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
  can: string[];
  router: Router;
  none: ComponentChildren; // where there is no such run
  children: (run: string) => ComponentChildren; // what is done with it
}

// The runs that can do one of these things, the newest first.
export function useRuns(...can: string[]): Run[] | null {
  const { runs } = useClient();
  if (!runs) return null;
  const able = runs.filter((run) => can.some((each) => run.can.includes(each)));
  return able.sort((one, other) => (other.updated ?? 0) - (one.updated ?? 0));
}

// What the address names, else what was chosen on this page before, else the first. It then stands
// in the address: while others train, another becomes the first.
export function useChoice(router: Router, field: string, options: string[]): string {
  const [last, keep] = useKept(`${router.route.page} ${field}`, '');
  const given = router.one(field);
  const found = given || (options.includes(last) ? last : (options[0] ?? ''));
  useEffect(() => {
    if (!found) return;
    if (found !== last) keep(found);
    if (!given) router.fill({ [field]: [found] });
  }, [found, given]);
  return found;
}

export function RunPicker({ can, router, none, children }: PickerProps) {
  const runs = useRuns(...can);
  const { failure, runs: all } = useClient();
  const chosen = useChoice(router, 'run', (runs ?? []).map(({ id }) => id));
  if (!runs) return failure ? <Failure text={failure} /> : <Busy text="Reading the runs…" />;
  if (!runs.length) return <>{none}</>;
  const able = runs.some(({ id }) => id === chosen);
  const there = all?.some(({ id }) => id === chosen);
  return (
    <>
      <label class="field">
        <span>Run</span>
        <select
          value={chosen}
          onChange={(event) => router.set({ run: [event.currentTarget.value] }, '')}
        >
          {!able && (
            <option value={chosen} selected>
              {plain(chosen)}
            </option>
          )}
          {runs.map((run) => (
            <option key={run.id} value={run.id} selected={run.id === chosen}>
              {runTitle(run)}
            </option>
          ))}
        </select>
      </label>
      {able ? (
        children(chosen)
      ) : (
        <Failure text={`${chosen}: ${there ? 'it cannot do this' : 'it is gone'}. Choose another run.`} />
      )}
    </>
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
