// The tool bar: only the controls that the view knows.

import { useState } from 'preact/hooks';
import type { Opened } from '../capture';
import type { Choices } from '../choices';
import type { Theme } from '../../shared/theme';
import type { Control, View } from '../view';
import { Scale, Search, Sinks, Threshold, Top, Weighting, Words, Zoom } from './how';
import { Chosen, FlowKind, Heads, Layers, Order, Sides, Steps } from './which';

export interface ControlsProps {
  opened: Opened;
  view: View;
  choices: Choices;
  theme: Theme;
  narrow: boolean;
  change: (some: Partial<Choices>) => void;
  stepLayer: (by: number) => void;
  stepHead: (by: number) => void;
  zoom: (factor: number) => void;
}

const FIRST: Control[] = ['side', 'layer', 'step', 'flow', 'order'];
const SETS: Control[] = ['heads', 'queries'];
const MORE: Control[] = ['scale', 'threshold', 'top', 'sinks', 'words', 'weighting', 'zoom'];
const PARTS: Record<Control, (props: ControlsProps) => preact.ComponentChild> = {
  side: Sides,
  layer: Layers,
  step: Steps,
  flow: FlowKind,
  order: Order,
  heads: Heads,
  queries: Chosen,
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
  const [open, setOpen] = useState(false);
  const part = (control: Control) => {
    const Part = PARTS[control];
    return view.controls.includes(control) && <Part key={control} {...props} />;
  };
  const more = [...MORE, 'search' as const].some((each) => view.controls.includes(each));
  const toolbar = (children: preact.ComponentChildren) => (
    <div class="controls" role="toolbar" aria-label="What is shown">
      {children}
    </div>
  );
  if (!narrow)
    return toolbar(
      <div class="row">{[...FIRST, ...SETS, 'search' as const, ...MORE].map(part)}</div>,
    );
  return toolbar(
    <>
      <div class="row">
        {FIRST.map(part)}
        {more && (
          <button type="button" aria-expanded={open} onClick={() => setOpen(!open)}>
            {open ? 'Fewer options' : 'Options'}
          </button>
        )}
        {SETS.map(part)}
      </div>
      {more && open && (
        <div class="row">
          {MORE.map(part)}
          {part('search')}
        </div>
      )}
    </>,
  );
}
