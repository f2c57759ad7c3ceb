// Tabs. Arrow keys go from one to the next, and a narrow row scrolls to the selected one.

import type { ComponentChild } from 'preact';
import { useLayoutEffect, useRef } from 'preact/hooks';

export interface Tab {
  name: string; // in the address and in ids
  title: ComponentChild;
  about?: string; // tooltip
  look?: string; // class
  keys?: string; // keyboard shortcut
}

interface Props {
  tabs: Tab[];
  selected: string;
  select: (name: string) => void;
  label: string;
  panel?: string; // id of the element that they change
  prefix?: string; // of the ids
}

export function Tabs({ tabs, selected, select, label, panel, prefix = '' }: Props) {
  const box = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => {
    const row = box.current;
    const tab = row?.querySelector<HTMLElement>('[aria-selected=true]');
    if (!row || !tab) return; // scroll the row, not the page
    const left = tab.offsetLeft - row.offsetLeft;
    if (left < row.scrollLeft) row.scrollLeft = left;
    const right = left + tab.offsetWidth;
    if (right > row.scrollLeft + row.clientWidth) row.scrollLeft = right - row.clientWidth;
  }, [selected]);
  const press = (event: KeyboardEvent): void => {
    const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!by) return;
    event.preventDefault();
    const index = tabs.findIndex(({ name }) => name === selected);
    const next = (index + by + tabs.length) % tabs.length;
    select(tabs[next].name);
    (box.current?.children[next] as HTMLElement | undefined)?.focus();
  };
  return (
    <div class="tabs" role="tablist" aria-label={label} ref={box} onKeyDown={press}>
      {tabs.map(({ name, title, about, look, keys }) => (
        <button
          key={name}
          id={`${prefix}tab-${name}`}
          type="button"
          role="tab"
          aria-selected={name === selected}
          aria-controls={panel}
          aria-keyshortcuts={keys}
          tabIndex={name === selected ? 0 : -1}
          class={look}
          title={about}
          onClick={() => select(name)}
        >
          {title}
        </button>
      ))}
    </div>
  );
}
