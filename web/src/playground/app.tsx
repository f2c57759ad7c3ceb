// The playground page: three panels, whose settings are stored in the address.

import { useContext, useEffect, useState } from 'preact/hooks';
import { PageContext, useAddressState } from '../shared/page-address';
import { Tabs } from '../shared/tabs';
import { PageHeading } from '../report/page-frame';
import { FeaturesPanel } from './features-panel';
import { PlanePanel } from './plane-panel';
import { PositionsPanel } from './positions-panel';
import { PANELS, parseFragment, formatFragment, type Panel, type State } from './page-state';
import type { Statements } from './claim-statements';

const PANEL_NAMES: Record<Panel, string> = {
  plane: 'In the plane',
  features: 'Random features',
  positions: 'Positions',
};

export function App({ root, statements }: { root: HTMLElement; statements: Statements }) {
  const { address } = useContext(PageContext);
  const [state, setState] = useState(() => parseFragment(address.read() ?? ''));
  useAddressState(formatFragment(state), (text) => setState(parseFragment(text)));
  useEffect(() => {
    root.dataset.painted = state.panel;
  });
  const change = (changes: Partial<State>): void => setState((old) => ({ ...old, ...changes }));
  return (
    <div class="sheet">
      <header>
        <PageHeading root={root} title="Attention playground" />
      </header>
      <Tabs
        label="Panels"
        panel="panel"
        tabs={PANELS.map((name) => ({ name, title: PANEL_NAMES[name] }))}
        selected={state.panel}
        select={(panel) => change({ panel: panel as Panel })}
      />
      <div role="tabpanel" id="panel" aria-labelledby={`tab-${state.panel}`}>
        {state.panel === 'plane' && <PlanePanel {...{ state, change, statements }} />}
        {state.panel === 'features' && (
          <FeaturesPanel
            choices={state.features}
            change={(changes) => change({ features: { ...state.features, ...changes } })}
          />
        )}
        {state.panel === 'positions' && (
          <PositionsPanel
            choices={state.positions}
            change={(changes) => change({ positions: { ...state.positions, ...changes } })}
          />
        )}
      </div>
    </div>
  );
}
