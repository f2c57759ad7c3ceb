// Tabs in a row; arrow keys go from one to the next, and a narrow row scrolls to the chosen one.

import type { ComponentChild } from 'preact';
import { useLayoutEffect, useRef } from 'preact/hooks';

export interface Tab {
  name: string; // in the address and in ids
  title: ComponentChild;
  about?: string;
  look?: string; // class
  keys?: string; // that choose it
}

interface Props {
  tabs: Tab[];
  chosen: string;
  choose: (name: string) => void;
  label: string;
  panel?: string; // id of the element that they change
  prefix?: string; // of the ids
}

export function Tabs({ tabs, chosen, choose, label, panel, prefix = '' }: Props) {
  const box = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => {
    const all = box.current;
    const on = all?.querySelector<HTMLElement>('[aria-selected=true]');
    if (!all || !on) return; // the list scrolls, and the page must not
    const left = on.offsetLeft - all.offsetLeft;
    if (left < all.scrollLeft) all.scrollLeft = left;
    const right = left + on.offsetWidth;
    if (right > all.scrollLeft + all.clientWidth) all.scrollLeft = right - all.clientWidth;
  }, [chosen]);
  const press = (event: KeyboardEvent): void => {
    const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!by) return;
    event.preventDefault();
    const at = tabs.findIndex(({ name }) => name === chosen);
    const next = (at + by + tabs.length) % tabs.length;
    choose(tabs[next].name);
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
          aria-selected={name === chosen}
          aria-controls={panel}
          aria-keyshortcuts={keys}
          tabIndex={name === chosen ? 0 : -1}
          class={look}
          title={about}
          onClick={() => choose(name)}
        >
          {title}
        </button>
      ))}
    </div>
  );
}
