// One tab for each view that the capture has data for, and for the current one.

import type { Capture } from '../capture';
import type { Choices } from '../choices';
import { Tabs } from '../../shared/tabs';
import type { View } from '../view';
import { VIEWS } from '../views/index';

interface Props {
  id: string;
  capture: Capture;
  choices: Choices;
  change: (changes: Partial<Choices>) => void;
}

export function ViewTabs({ id, capture, choices, change }: Props) {
  const tabs = VIEWS.filter(
    (view) => view.id === choices.view || applies(view, capture, choices),
  ).map((view) => ({
    name: view.id,
    title: underlineKey(view),
    about: `${view.description} Key: ${view.key}`,
    keys: view.key,
  }));
  return (
    <Tabs
      label="Views"
      panel={`${id}-panel`}
      prefix={`${id}-`}
      selected={choices.view}
      select={(view) => change({ view })}
      tabs={tabs}
    />
  );
}

// Either kind of flow is enough for the flow view, which offers the other one.
function applies(view: View, capture: Capture, choices: Choices): boolean {
  return (['rollout', 'gradient'] as const).some(
    (flow) => view.missingReason(capture, { ...choices, flow }) === null,
  );
}

// Underlines the keyboard shortcut in the title of the view.
function underlineKey({ title, key }: View) {
  const index = title.toLowerCase().indexOf(key.toLowerCase());
  if (index < 0)
    return (
      <>
        {title} <kbd>{key}</kbd>
      </>
    );
  return (
    <>
      {title.slice(0, index)}
      <u>{title.slice(index, index + 1)}</u>
      {title.slice(index + 1)}
    </>
  );
}
