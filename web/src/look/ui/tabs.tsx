// One tab for each view; the key is underlined in its name.

import type { Opened } from '../capture';
import type { Choices } from '../choices';
import { Tabs } from '../../shared/tabs';
import type { View } from '../view';
import { VIEWS } from '../views/index';

interface Props {
  id: string;
  opened: Opened;
  choices: Choices;
  change: (some: Partial<Choices>) => void;
}

export function ViewTabs({ id, opened, choices, change }: Props) {
  const tabs = VIEWS.map((view) => {
    const missing = view.missing(opened, choices);
    return {
      name: view.id,
      title: underlined(view),
      about: missing ?? `${view.about} Key: ${view.key}`,
      look: missing ? 'faint' : '',
      keys: view.key,
    };
  });
  return (
    <Tabs
      label="Views"
      panel={`${id}-panel`}
      prefix={`${id}-`}
      chosen={choices.view}
      choose={(view) => change({ view })}
      tabs={tabs}
    />
  );
}

// The key is underlined in the name.
function underlined({ title, key }: View) {
  const at = title.toLowerCase().indexOf(key.toLowerCase());
  if (at < 0)
    return (
      <>
        {title} <kbd>{key}</kbd>
      </>
    );
  return (
    <>
      {title.slice(0, at)}
      <u>{title.slice(at, at + 1)}</u>
      {title.slice(at + 1)}
    </>
  );
}
