// Three panels; what is set in them is in the address.

import { useContext, useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import { Home, useAddress } from '../shared/home';
import { Heading } from '../report/page';
import { FeaturesPanel } from './features-panel';
import { PlanePanel } from './plane-panel';
import { PositionsPanel } from './positions-panel';
import { PANELS, parse, print, type Panel, type State } from './state';
import type { Statements } from './statements';

const NAMES: Record<Panel, string> = {
  plane: 'In the plane',
  features: 'Random features',
  positions: 'Positions',
};

export function App({ root, statements }: { root: HTMLElement; statements: Statements }) {
  const { address } = useContext(Home);
  const [state, setState] = useState(() => parse(address.read() ?? ''));
  useAddress(print(state), (text) => setState(parse(text)));
  useEffect(() => {
    root.dataset.painted = state.panel;
  });
  const change = (some: Partial<State>): void => setState((old) => ({ ...old, ...some }));
  return (
    <div class="sheet">
      <header>
        <Heading root={root} title="Attention playground" />
      </header>
      <Tabs panel={state.panel} choose={(panel) => change({ panel })} />
      <div role="tabpanel" id="panel" aria-labelledby={`tab-${state.panel}`}>
        {state.panel === 'plane' && <PlanePanel {...{ state, change, statements }} />}
        {state.panel === 'features' && (
          <FeaturesPanel
            choices={state.features}
            change={(some) => change({ features: { ...state.features, ...some } })}
          />
        )}
        {state.panel === 'positions' && (
          <PositionsPanel
            choices={state.positions}
            change={(some) => change({ positions: { ...state.positions, ...some } })}
          />
        )}
      </div>
    </div>
  );
}

function Tabs({ panel, choose }: { panel: Panel; choose: (panel: Panel) => void }) {
  const box = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => {
    const on = box.current?.querySelector<HTMLElement>('[aria-selected=true]');
    if (on && box.current) box.current.scrollLeft = on.offsetLeft - on.offsetWidth; // not the page
  }, [panel]);
  const press = (event: KeyboardEvent): void => {
    const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!by) return;
    event.preventDefault();
    const next = PANELS[(PANELS.indexOf(panel) + by + PANELS.length) % PANELS.length];
    choose(next);
    box.current?.querySelector<HTMLElement>(`#tab-${next}`)?.focus();
  };
  return (
    <div class="tabs" role="tablist" aria-label="Panels" ref={box} onKeyDown={press}>
      {PANELS.map((each) => (
        <button
          key={each}
          id={`tab-${each}`}
          type="button"
          role="tab"
          aria-selected={each === panel}
          aria-controls="panel"
          tabIndex={each === panel ? 0 : -1}
          onClick={() => choose(each)}
        >
          {NAMES[each]}
        </button>
      ))}
    </div>
  );
}
