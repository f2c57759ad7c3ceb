// Controls for how weights are shown: scale, threshold, sinks, words, search.

import { asking } from '../asking';
import type { Choices } from '../choices';
import { found, number } from '../../shared/text';
import type { ControlsProps } from './controls';
import { Check, choice, Select } from './inputs';

export const Scale = choice('scale', 'Scale', 'How weights become strength of color: s', [
  ['linear', 'linear'],
  ['sqrt', 'square root'],
  ['log', 'logarithmic'],
]);

// The slider is finer near nothing, where most weights are.
export function Threshold({ choices, change }: ControlsProps) {
  const value = Math.round(Math.sqrt(choices.threshold) * 100);
  return (
    <label title="Weights below are hidden">
      <span>From</span>
      <input
        type="range"
        min="0"
        max="100"
        value={value}
        aria-label="Smallest weight shown"
        aria-valuetext={number(choices.threshold)}
        onInput={(event) => change({ threshold: (Number(event.currentTarget.value) / 100) ** 2 })}
      />
      <output class="number">{number(choices.threshold, 3)}</output>
    </label>
  );
}

const TOPS = [0, 1, 2, 3, 5, 10, 20, 50];

export function Top({ choices, change }: ControlsProps) {
  const all = TOPS.includes(choices.top) ? TOPS : [...TOPS, choices.top];
  return (
    <Select
      name="Top"
      value={String(choices.top)}
      title="The largest weights of each query"
      values={all.map((each) => [String(each), each ? String(each) : 'all'])}
      change={(top) => change({ top: Number(top) })}
    />
  );
}

const SINKS: [Choices['first'], string][] = [
  ['show', 'show'],
  ['hide', 'hide'],
  ['renormalize', 'renormalize'],
];
const SINKING =
  'Hide: its weights are left out. Renormalize: left out, and the others share what it had.';
const First = choice('first', 'First token', SINKING, SINKS);
const Separators = choice('separators', 'Separators', SINKING, SINKS);

export function Sinks(props: ControlsProps) {
  return (
    <>
      <First {...props} />
      <Separators {...props} />
    </>
  );
}

export function Words({ choices, change }: ControlsProps) {
  return (
    <Check
      name="words"
      on={choices.words}
      title="Sub-words as one word: sum over keys, mean over queries. Key: w"
      change={(words) => change({ words })}
    />
  );
}

export function Weighting({ opened, choices, change }: ControlsProps) {
  const has = opened.header.sides[choices.side].layers[choices.layer]?.norms;
  return (
    <Select
      name=""
      label="What is shown"
      value={has ? choices.weighting : 'weights'}
      disabled={!has}
      title={
        has
          ? 'A large weight on a short value changes little'
          : 'Lengths of values were not captured'
      }
      values={[
        ['weights', 'weights'],
        ['norms', 'weights × |v|'],
      ]}
      change={(weighting) => change({ weighting })}
    />
  );
}

export function Zoom({ choices, change, zoom }: ControlsProps) {
  return (
    <span class="group">
      <button
        type="button"
        aria-label="Zoom out"
        title="Zoom out: -"
        disabled={!choices.zoom}
        onClick={() => zoom(1 / 1.5)}
      >
        −
      </button>
      <button type="button" aria-label="Zoom in" title="Zoom in: +" onClick={() => zoom(1.5)}>
        +
      </button>
      <button
        type="button"
        aria-label="No zoom"
        title="No zoom: 0"
        disabled={!choices.zoom}
        onClick={() => change({ zoom: null })}
      >
        1:1
      </button>
    </span>
  );
}

export function Search({ opened, choices, change }: ControlsProps) {
  const side = opened.header.sides[choices.side];
  const layer = side.layers[choices.layer];
  const tokens = layer ? asking(side, layer).tokens : [];
  const hits = choices.search
    ? tokens.flatMap(({ text }, i) => (found(text, choices.search) ? [i] : []))
    : [];
  return (
    <label title="Key: /. Enter chooses the tokens that were found">
      <input
        type="search"
        class="search"
        value={choices.search}
        maxLength={200}
        placeholder="search tokens"
        aria-label="Search tokens"
        onInput={(event) => change({ search: event.currentTarget.value })}
        onKeyDown={(event) => {
          if (event.key === 'Enter' && hits.length) change({ queries: hits, key: null });
        }}
      />
      {choices.search && <output class="dim">{hits.length} found</output>}
    </label>
  );
}
