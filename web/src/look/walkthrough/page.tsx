// The walkthrough: one token's path through the model, step by step, with the capture's numbers.

import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { number, quoted } from '../../shared/readable-text';
import { theme as themeOf } from '../../shared/theme';
import { MAX_TEMPERATURE, MIN_TEMPERATURE, type Choices } from '../choices';
import { headName, layerTitle } from '../names';
import type { PageProps } from '../view';
import { TokenText } from './pictures';
import { StagePicture } from './stage-picture';
import { STAGES, type Stage } from './stages';
import { readWalk, type Walk } from './walk-data';

const PLAY_MS = 5000;

export function WalkthroughPage({ frame, mode, change }: PageProps) {
  const { capture, choices } = frame;
  const walk = useMemo(
    () => readWalk(capture, choices),
    [capture, choices.side, choices.layer, choices.heads, choices.queries, choices.key],
  );
  const at = Math.min(choices.stage, STAGES.length - 1);
  const stage = STAGES[at];
  const go = (to: number): void => change({ stage: Math.max(0, Math.min(STAGES.length - 1, to)) });
  const [playing, setPlaying] = usePlay(at, go);
  const missing = stage.missing(walk);
  return (
    <div class="walk" data-stage={stage.id}>
      <p class="walk-place">
        The path of <b>{quoted(walk.queries[walk.query].text)}</b> through{' '}
        {layerTitle(walk.side, walk.index).toLowerCase()}, head {headName(walk.layer, walk.head)}
      </p>
      <Path walk={walk} at={at} go={go} />
      <div class="walk-body">
        <section class="walk-text" aria-live="polite">
          <h2>
            <span class="walk-number">{at + 1}</span> {stage.title(walk)}
          </h2>
          {stage.sentences(walk, choices.temperature).map((sentence) => (
            <p key={sentence}>{sentence}</p>
          ))}
          {stage.formula(walk, choices.temperature)}
          {stage.id === 'softmax' && walk.isSoftmax && (
            <Temperature value={choices.temperature} change={change} />
          )}
        </section>
        <section class="walk-picture" key={pictureKey(stage)} aria-label={stage.short}>
          {missing && <Missing text={missing} walk={walk} choices={choices} change={change} />}
          <StagePicture
            {...{ walk, change }}
            stage={stage.id}
            temperature={choices.temperature}
            theme={themeOf(mode)}
          />
        </section>
      </div>
      <nav class="walk-buttons" aria-label="Steps">
        <button type="button" disabled={at === 0} title="Key: ←" onClick={() => go(at - 1)}>
          ← Back
        </button>
        <button
          type="button"
          aria-pressed={playing}
          title="Goes on by itself, a step every five seconds"
          onClick={() => setPlaying(!playing)}
        >
          {playing ? 'Pause' : 'Play'}
        </button>
        <span class="number dim">
          {at + 1} of {STAGES.length}
        </span>
        <button
          type="button"
          class="next"
          disabled={at === STAGES.length - 1}
          title="Key: →"
          onClick={() => go(at + 1)}
        >
          Next →
        </button>
      </nav>
      <Tokens walk={walk} change={change} />
    </div>
  );
}

// The rows of keys stay between their four steps, so that their bars move.
const pictureKey = ({ id }: Stage): string =>
  ['scores', 'mask', 'softmax', 'values'].includes(id) ? 'keys' : id;

// Goes to the next step every few seconds, until the last one.
function usePlay(at: number, go: (to: number) => void): [boolean, (playing: boolean) => void] {
  const [playing, setPlaying] = useState(false);
  const latest = useRef(go);
  latest.current = go;
  useEffect(() => {
    if (!playing) return undefined;
    if (at === STAGES.length - 1) {
      setPlaying(false);
      return undefined;
    }
    const timer = setTimeout(() => latest.current(at + 1), PLAY_MS);
    return () => clearTimeout(timer);
  }, [playing, at]);
  return [
    playing,
    (start) => {
      if (start && at === STAGES.length - 1) go(0);
      setPlaying(start);
    },
  ];
}

// All steps in a line, with the token at the current one.
function Path({ walk, at, go }: { walk: Walk; at: number; go: (to: number) => void }) {
  const { queries, query } = walk;
  return (
    <div class="walk-path">
      <ol style={{ '--at': at, '--all': STAGES.length }}>
        {STAGES.map((stage, i) => (
          <li key={stage.id} class={i < at ? 'done' : ''}>
            <button
              type="button"
              aria-current={i === at ? 'step' : undefined}
              aria-label={`Step ${i + 1}: ${stage.short}`}
              title={stage.short}
              onClick={() => go(i)}
            >
              <i />
              <span>{stage.id === 'softmax' && !walk.isSoftmax ? 'Weights' : stage.short}</span>
            </button>
          </li>
        ))}
        <li class="traveler" aria-hidden="true">
          <TokenText token={queries[query]} limit={8} />
        </li>
      </ol>
    </div>
  );
}

interface TemperatureProps {
  value: number;
  change: (changes: Partial<Choices>) => void;
}

function Temperature({ value, change }: TemperatureProps) {
  const [low, high] = [Math.log2(MIN_TEMPERATURE), Math.log2(MAX_TEMPERATURE)];
  return (
    <label class="temperature">
      <span>
        Temperature <math><mi>τ</mi></math>
      </span>
      <input
        type="range"
        min={low}
        max={high}
        step={0.25}
        value={Math.log2(value)}
        aria-label="Temperature"
        aria-valuetext={number(value, 2)}
        onInput={(event) =>
          change({ temperature: Number((2 ** Number(event.currentTarget.value)).toPrecision(4)) })
        }
      />
      <output class="number">{number(value, 2)}</output>
      <button type="button" disabled={value === 1} onClick={() => change({ temperature: 1 })}>
        Reset
      </button>
    </label>
  );
}

interface MissingProps {
  text: string;
  walk: Walk;
  choices: Choices;
  change: (changes: Partial<Choices>) => void;
}

// What the capture lacks, where it has it, and how to capture it.
function Missing({ text, walk, choices, change }: MissingProps) {
  const { side, index, layer, head, query, recorded } = walk;
  const other = recorded ? null : side.walkthrough;
  const place = `${index}.${headName(layer, head)}.${query}`;
  return (
    <div class="walk-missing">
      <p>{text}</p>
      {!recorded && (
        <p>
          To capture them for this token: <code>attnlab look … --walkthrough {place}</code>
          {choices.side > 0 && ', of this side alone'}
        </p>
      )}
      {other && (
        <button
          type="button"
          onClick={() => change({ layer: other.layer, heads: [other.head], queries: [other.query] })}
        >
          Show {quoted(side.sequences[side.layers[other.layer].queries].tokens[other.query].text)} in{' '}
          {layerTitle(side, other.layer)}, head {headName(side.layers[other.layer], other.head)}
        </button>
      )}
    </div>
  );
}

const NEAR = 30; // tokens listed before and after the chosen one

// The text: a click follows another token.
function Tokens({ walk, change }: { walk: Walk; change: (changes: Partial<Choices>) => void }) {
  const { queries, query } = walk;
  const first = Math.max(0, query - NEAR);
  const last = Math.min(queries.length, query + NEAR + 1);
  return (
    <div class="walk-tokens" role="group" aria-label="Tokens">
      <span class="dim">Follow another token:</span>
      {first > 0 && <span class="dim">…</span>}
      {queries.slice(first, last).map((token, i) => (
        <button
          key={first + i}
          type="button"
          class="chip"
          aria-pressed={first + i === query}
          onClick={() => change({ queries: [first + i], key: null })}
        >
          <TokenText token={token} limit={12} />
        </button>
      ))}
      {last < queries.length && <span class="dim">…</span>}
    </div>
  );
}
