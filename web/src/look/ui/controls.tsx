// The toolbar: only the controls that the view uses.

import { useState } from 'preact/hooks';
import type { Capture } from '../capture';
import type { Choices } from '../choices';
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
} from './selection-controls';

export interface ControlsProps {
  capture: Capture;
  view: View;
  choices: Choices;
  theme: Theme;
  narrow: boolean;
  change: (changes: Partial<Choices>) => void;
  stepLayer: (by: number) => void;
  stepHead: (by: number) => void;
  zoom: (factor: number) => void;
}

const SELECTION: Control[] = ['side', 'layer', 'step', 'flow', 'order'];
const TOKEN_SETS: Control[] = ['heads', 'queries'];
const DISPLAY: Control[] = ['scale', 'threshold', 'top', 'sinks', 'words', 'weighting', 'zoom'];
const COMPONENTS: Record<Control, (props: ControlsProps) => preact.ComponentChild> = {
  side: SideSelect,
  layer: Layers,
  step: Steps,
  flow: FlowKind,
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

export function Controls(props: ControlsProps) {
  const { view, narrow } = props;
  const [expanded, setExpanded] = useState(false);
  const renderControl = (control: Control) => {
    const Component = COMPONENTS[control];
    return view.controls.includes(control) && <Component key={control} {...props} />;
  };
  const hasDisplay = [...DISPLAY, 'search' as const].some((each) => view.controls.includes(each));
  const toolbar = (children: preact.ComponentChildren) => (
    <div class="controls" role="toolbar" aria-label="Display options">
      {children}
    </div>
  );
  if (!narrow)
    return toolbar(
      <div class="row">
        {[...SELECTION, ...TOKEN_SETS, 'search' as const, ...DISPLAY].map(renderControl)}
      </div>,
    );
  return toolbar(
    <>
      <div class="row">
        {SELECTION.map(renderControl)}
        {hasDisplay && (
          <button type="button" aria-expanded={expanded} onClick={() => setExpanded(!expanded)}>
            {expanded ? 'Fewer options' : 'Options'}
          </button>
        )}
        {TOKEN_SETS.map(renderControl)}
      </div>
      {hasDisplay && expanded && (
        <div class="row">
          {DISPLAY.map(renderControl)}
          {renderControl('search')}
        </div>
      )}
    </>,
  );
}
