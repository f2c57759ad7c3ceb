// The toolbar: only the controls that the view uses.

import { useState } from 'preact/hooks';
import type { Capture } from '../capture';
import { DEFAULTS, type Choices } from '../choices';
import type { Theme } from '../../shared/theme';
import type { Control, View } from '../view';
import { Scale, Search, Sinks, Threshold, Top, Weighting, Words, Zoom } from './display-controls';
import {
  SelectedTokens,
  FlowKind,
  Heads,
  Layers,
  Order,
  SideSelect,
  Steps,
  Vectors,
} from './selection-controls';

export interface ControlsProps {
  capture: Capture;
  view: View;
  choices: Choices;
  theme: Theme;
  change: (changes: Partial<Choices>) => void;
  stepLayer: (by: number) => void;
  stepHead: (by: number) => void;
  zoom: (factor: number) => void;
}

const SELECTION: Control[] = ['vectors', 'side', 'layer', 'step', 'flow', 'order'];
const TOKEN_SETS: Control[] = ['heads', 'queries'];
const DISPLAY: Control[] = [
  'search',
  'scale',
  'threshold',
  'top',
  'sinks',
  'words',
  'weighting',
  'zoom',
];
const COMPONENTS: Record<Control, (props: ControlsProps) => preact.ComponentChild> = {
  side: SideSelect,
  layer: Layers,
  step: Steps,
  flow: FlowKind,
  vectors: Vectors,
  order: Order,
  heads: Heads,
  queries: SelectedTokens,
  scale: Scale,
  threshold: Threshold,
  top: Top,
  sinks: Sinks,
  words: Words,
  weighting: Weighting,
  zoom: Zoom,
  search: Search,
};

// One row: what is shown. The rest, how it is shown, is behind "More", unless it is in use.
export function Controls(props: ControlsProps) {
  const { view, choices } = props;
  const [expanded, setExpanded] = useState(() => usesDisplayOptions(choices));
  const renderControl = (control: Control) => {
    const Component = COMPONENTS[control];
    return view.controls.includes(control) && <Component key={control} {...props} />;
  };
  const hasDisplay = DISPLAY.some((each) => view.controls.includes(each));
  return (
    <div class="controls" role="toolbar" aria-label="Display options">
      <div class="row">
        {[...SELECTION, ...TOKEN_SETS].map(renderControl)}
        {hasDisplay && (
          <button
            type="button"
            class="more"
            aria-expanded={expanded}
            onClick={() => setExpanded(!expanded)}
          >
            {expanded ? 'Fewer' : 'More'}
            <span class="wide"> options</span>
          </button>
        )}
      </div>
      {hasDisplay && (
        <div class="row options" hidden={!expanded}>
          {DISPLAY.map(renderControl)}
        </div>
      )}
    </div>
  );
}

// Whether one of the options behind "More" is not as usual, for example because of a link.
function usesDisplayOptions(choices: Choices): boolean {
  const names = ['scale', 'threshold', 'top', 'first', 'separators', 'words', 'weighting', 'search'] as const;
  return names.some((name) => choices[name] !== DEFAULTS[name]);
}
