// A row of heads that are worth a look: the most telling ones, then the clearest of each pattern.

import type { Capture } from '../capture';
import type { Highlight, Side } from '../capture-format';
import type { Choices } from '../choices';
import { headName, layerName } from '../names';
import { inCell, isolate, quoted, wholePercent } from '../../shared/readable-text';
import type { View } from '../view';

const VIEWS_OF_ONE_HEAD = ['heads', 'walkthrough', 'matrix', 'neurons', 'cross', 'image'];

interface Props {
  capture: Capture;
  view: View;
  choices: Choices;
  change: (changes: Partial<Choices>) => void;
}

export function InterestingHeads({ capture, view, choices, change }: Props) {
  const { highlights, sides } = capture.header;
  const layers = view.layers?.(capture, choices);
  const listed = highlights.filter(({ layer }) => layers?.includes(layer) ?? true);
  if (!listed.length || choices.side !== 0 || !VIEWS_OF_ONE_HEAD.includes(view.id)) return null;
  return (
    <div class="interesting" role="group" aria-label="Interesting heads">
      <span class="dim">Interesting heads</span>
      {listed.map((highlight) => (
        <button
          key={`${highlight.layer}.${highlight.head}`}
          type="button"
          class="chip"
          aria-pressed={isShown(highlight, choices)}
          title={describeHighlight(highlight, sides[0])}
          onClick={() => change(chooseHighlight(highlight))}
        >
          <b>
            {layerName(sides[0], highlight.layer)}.
            {headName(sides[0].layers[highlight.layer], highlight.head)}
          </b>
          <span>{shortName(highlight, sides[0])}</span>
        </button>
      ))}
    </div>
  );
}

export const chooseHighlight = ({ layer, head, query }: Highlight): Partial<Choices> => ({
  layer,
  heads: [head],
  queries: [query],
  key: null,
  mean: false,
});

const isShown = ({ layer, head }: Highlight, choices: Choices): boolean =>
  choices.layer === layer && choices.heads.length === 1 && choices.heads[0] === head;

function tokens({ layer, query, key }: Highlight, side: Side): [string, string] {
  const info = side.layers[layer];
  return [
    quoted(side.sequences[info.queries].tokens[query].text, 12),
    quoted(side.sequences[info.keys].tokens[key].text, 12),
  ];
}

// Labels come from a file, so invisible characters and text direction are made safe.
const shortName = (highlight: Highlight, side: Side): string => {
  const [query, key] = tokens(highlight, side);
  return highlight.pattern
    ? isolate(inCell(highlight.pattern))
    : `${query} → ${key} ${wholePercent(highlight.weight)}`;
};

function describeHighlight(highlight: Highlight, side: Side): string {
  const [query, key] = tokens(highlight, side);
  const info = side.layers[highlight.layer];
  const pattern = highlight.pattern ? `, ${isolate(inCell(highlight.pattern))}` : '';
  return (
    `Layer ${layerName(side, highlight.layer)}, head ${headName(info, highlight.head)}${pattern}: ` +
    `${query} attends to ${key} (${wholePercent(highlight.weight)})`
  );
}
