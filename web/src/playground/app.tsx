// Three panels; what is set in them is in the address.

import { useContext, useEffect, useState } from 'preact/hooks';
import { Home, useAddress } from '../shared/home';
import { Tabs } from '../shared/tabs';
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
      <Tabs
        label="Panels"
        panel="panel"
        tabs={PANELS.map((name) => ({ name, title: NAMES[name] }))}
        chosen={state.panel}
        choose={(panel) => change({ panel: panel as Panel })}
      />
      <div role="tabpanel" id="panel" aria-labeledby={`tab-${state.panel}`}>
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
