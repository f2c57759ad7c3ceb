// One tab for each view; the key is underlined in its name.

import { useLayoutEffect, useRef } from 'preact/hooks';
import type { Opened } from '../capture';
import type { Choices } from '../choices';
import type { View } from '../view';
import { VIEWS } from '../views/index';

interface TabsProps {
  id: string;
  opened: Opened;
  choices: Choices;
  change: (some: Partial<Choices>) => void;
}

export function Tabs({ id, opened, choices, change }: TabsProps) {
  const list = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => {
    const all = list.current;
    const on = all?.querySelector<HTMLElement>('[aria-selected=true]');
    if (!all || !on) return; // on a narrow screen the list scrolls, and the page must not
    const left = on.offsetLeft - all.offsetLeft;
    if (left < all.scrollLeft) all.scrollLeft = left;
    const right = left + on.offsetWidth;
    if (right > all.scrollLeft + all.clientWidth) all.scrollLeft = right - all.clientWidth;
  }, [choices.view]);
  const go = (event: KeyboardEvent): void => {
    const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!by) return;
    event.preventDefault();
    const at = VIEWS.findIndex((view) => view.id === choices.view);
    const next = VIEWS[(at + by + VIEWS.length) % VIEWS.length];
    change({ view: next.id });
    list.current?.querySelector<HTMLElement>(`#${id}-tab-${next.id}`)?.focus();
  };
  return (
    <div class="tabs" role="tablist" aria-label="Views" ref={list} onKeyDown={go}>
      {VIEWS.map((view) => {
        const on = view.id === choices.view;
        const missing = view.missing(opened, choices);
        return (
          <button
            key={view.id}
            type="button"
            role="tab"
            id={`${id}-tab-${view.id}`}
            aria-selected={on}
            aria-controls={`${id}-panel`}
            aria-keyshortcuts={view.key}
            tabIndex={on ? 0 : -1}
            class={missing ? 'faint' : ''}
            title={missing ?? `${view.about} Key: ${view.key}`}
            onClick={() => change({ view: view.id })}
          >
            {underlined(view)}
          </button>
        );
      })}
    </div>
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
