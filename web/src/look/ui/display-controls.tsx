// Controls for how weights are displayed: scale, threshold, sinks, words, zoom, search.

import { querySequence } from '../query-labels';
import type { Choices } from '../choices';
import { matchesSearch, number } from '../../shared/readable-text';
import type { ControlsProps } from './controls';
import { Checkbox, makeSelect, Select } from './inputs';

export const Scale = makeSelect(
  'scale',
  'Scale',
  'How weights map to the strength of the color. Key: s',
  [
    ['linear', 'linear'],
    ['sqrt', 'square root'],
    ['log', 'logarithmic'],
  ],
);

// The slider is finer near 0, where most weights are.
export function Threshold({ choices, change }: ControlsProps) {
  const value = Math.round(Math.sqrt(choices.threshold) * 100);
  return (
    <label title="Hide smaller weights">
      <span>Min weight</span>
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

const TOP_OPTIONS = [0, 1, 2, 3, 5, 10, 20, 50];

export function Top({ choices, change }: ControlsProps) {
  const options = TOP_OPTIONS.includes(choices.top) ? TOP_OPTIONS : [...TOP_OPTIONS, choices.top];
  return (
    <Select
      name="Top"
      value={String(choices.top)}
      title="Show only the largest weights of each query"
      values={options.map((each) => [String(each), each ? String(each) : 'all'])}
      change={(top) => change({ top: Number(top) })}
    />
  );
}

const SINK_OPTIONS: [Choices['first'], string][] = [
  ['show', 'show'],
  ['hide', 'hide'],
  ['renormalize', 'renormalize'],
];
const SINK_HELP =
  'Hide: do not show its weights. Renormalize: hide them and scale up the other weights of the row.';
const First = makeSelect('first', 'First token', SINK_HELP, SINK_OPTIONS);
const Separators = makeSelect('separators', 'Separators', SINK_HELP, SINK_OPTIONS);

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
    <Checkbox
      name="words"
      checked={choices.words}
      title="Merge subwords into words: sum over keys, mean over queries. Key: w"
      change={(words) => change({ words })}
    />
  );
}

export function Weighting({ capture, choices, change }: ControlsProps) {
  const norms = capture.header.sides[choices.side].layers[choices.layer]?.norms;
  return (
    <Select
      name=""
      label="Displayed number"
      value={norms ? choices.weighting : 'weights'}
      disabled={!norms}
      title={
        norms
          ? 'A large weight on a value with a small norm changes the output little'
          : 'The norms of the values were not captured'
      }
      values={[
        ['weights', 'weights'],
        ['norms', 'weights × ‖v‖'],
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
        title="Zoom out. Key: -"
        disabled={!choices.zoom}
        onClick={() => zoom(1 / 1.5)}
      >
        −
      </button>
      <button type="button" aria-label="Zoom in" title="Zoom in. Key: +" onClick={() => zoom(1.5)}>
        +
      </button>
      <button
        type="button"
        aria-label="Show everything"
        title="Show everything. Key: 0"
        disabled={!choices.zoom}
        onClick={() => change({ zoom: null })}
      >
        1:1
      </button>
    </span>
  );
}

export function Search({ capture, choices, change }: ControlsProps) {
  const side = capture.header.sides[choices.side];
  const layer = side.layers[choices.layer];
  const tokens = layer ? querySequence(side, layer).tokens : [];
  const matches = choices.search
    ? tokens.flatMap(({ text }, i) => (matchesSearch(text, choices.search) ? [i] : []))
    : [];
  return (
    <label title="Press Enter to select the matching tokens. Key: /">
      <input
        type="search"
        class="search"
        value={choices.search}
        maxLength={200}
        placeholder="search tokens"
        aria-label="Search tokens"
        onInput={(event) => change({ search: event.currentTarget.value })}
        onKeyDown={(event) => {
          if (event.key === 'Enter' && matches.length) change({ queries: matches, key: null });
        }}
      />
      {choices.search && (
        <output class="dim">
          {matches.length === 1 ? '1 match' : `${matches.length} matches`}
        </output>
      )}
    </label>
  );
}
