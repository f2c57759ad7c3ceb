// One tab for each view.

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
  const tabs = VIEWS.map((view) => {
    const missingReason = view.missingReason(capture, choices);
    return {
      name: view.id,
      title: underlineKey(view),
      about: missingReason ?? `${view.description} Key: ${view.key}`,
      look: missingReason ? 'faint' : '',
      keys: view.key,
    };
  });
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
