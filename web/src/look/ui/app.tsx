// The shell: title, badges, tabs, tool bar, drawing or table, and what can be taken away.

import { useCallback, useContext, useEffect, useMemo, useRef, useState } from 'preact/hooks';
import type { Opened } from '../capture';
import { bounded, opening, parse, print, type Choices } from '../choices';
import { measurer } from '../../shared/fonts';
import { Home, useAddress } from '../../shared/home';
import { zoomAt } from '../moving';
import { theme as themeOf } from '../../shared/theme';
import type { Drawing, Frame, Target, View } from '../view';
import { VIEWS } from '../views/index';
import { useAhead } from './ahead';
import { Badges } from './badges';
import { Controls } from './controls';
import { Guard } from '../../shared/guard';
import { Help } from './help';
import { useLoaded, useSize } from './hooks';
import { globalKeys } from './keys';
import { usePaper } from './paper';
import { useMode } from '../../shared/mode';
import { Stage } from './stage';
import { TableView } from './table';
import { ViewTabs } from './tabs';
import { Takeaway } from './takeaway';

export interface Place {
  root: HTMLElement;
  notebook: boolean; // no fragment, no keys of the document, a fixed height
  id: string; // begins the ids of elements: a notebook can hold several
}

const NARROW = 900;

export function viewOf(id: string): View {
  return VIEWS.find((view) => view.id === id) ?? VIEWS[0];
}

// Within the capture, and on a layer that the view can show.
function settled(choices: Choices, opened: Opened): Choices {
  const first = bounded(choices, opened.header);
  const view = viewOf(first.view);
  const layers = view.missing(opened, first) ? undefined : view.layers?.(opened, first);
  if (!layers?.length || layers.includes(first.layer)) return { ...first, view: view.id };
  const layer = layers.find((each) => each >= first.layer) ?? layers[layers.length - 1];
  return bounded({ ...choices, view: view.id, layer }, opened.header);
}

export function App({ opened, place }: { opened: Opened; place: Place }) {
  const { alone, address } = useContext(Home);
  const [choices, setChoices] = useState<Choices>(() =>
    settled(parse((place.notebook ? '' : address.read()) ?? '', opening(opened.header)), opened),
  );
  const [mode, nextMode] = useMode(place);
  const [help, setHelp] = useState(false);
  const measure = useMemo(() => measurer(document.createElement('canvas').getContext('2d')), []);
  const theme = themeOf(mode.now);
  const view = viewOf(choices.view);

  const change = useCallback(
    (some: Partial<Choices>) =>
      setChoices((old) => {
        const moved = some.layer !== undefined && some.layer !== old.layer;
        const again = {
          ...(some.words !== undefined || some.side !== undefined ? { zoom: null } : {}),
          ...(some.side !== undefined ? { against: null } : {}), // it was of the other side
        };
        const next = settled({ ...old, ...again, ...some }, opened);
        return moved && !some.heads && next.heads.length !== old.heads.length
          ? settled({ ...next, heads: [] }, opened)
          : next;
      }),
    [opened],
  );
  useAddress(
    print(choices, opening(opened.header)),
    (text) => setChoices(settled(parse(text, opening(opened.header)), opened)),
    !place.notebook,
  );

  const acts = useMemo(() => actions(opened, change), [opened, change]);
  const drawing = useRef<Drawing | null>(null);
  const now = useRef(choices);
  now.current = choices;
  useEffect(
    () =>
      globalKeys(place, {
        choices: () => now.current,
        views: VIEWS,
        change,
        help: () => setHelp(true),
        mode: nextMode,
        stepLayer: (by) => acts.stepLayer(now.current, by),
        stepHead: (by) => acts.stepHead(now.current, by),
        stepToken: (by) => acts.stepToken(now.current, by),
      }),
    [place, acts],
  );

  const [size, box, top] = useSize(place);
  const missing = view.missing(opened, choices);
  const loaded = useLoaded(opened, missing ? null : view, choices);
  // what is on the screen, for whoever must wait for it
  useEffect(() => {
    const done = missing || loaded.failure || (loaded.view === view && loaded.choices === choices);
    if (done) place.root.dataset.painted = view.id;
    else delete place.root.dataset.painted;
  });
  const frame: Frame = {
    opened,
    choices: loaded.choices,
    width: size.width,
    height: size.height,
    measure,
  };
  useAhead(missing || choices.table || !loaded.view ? null : frame, (one) => settled(one, opened));
  const drawn = useCallback((one: Drawing | null) => setShown(one), []);
  const [shown, setShown] = useState<Drawing | null>(null);
  drawing.current = missing || choices.table ? null : shown;
  usePaper(box, () => drawing.current, measure);

  const zoom = (factor: number): void => {
    const zoomed = drawing.current?.zoom;
    if (zoomed)
      change({ zoom: zoomAt(zoomed, factor, zoomed.x + zoomed.w / 2, zoomed.y + zoomed.h / 2) });
  };
  return (
    <div class="shell" data-theme={mode.now}>
      <header>
        <div class="heading">
          <h1 title={opened.header.title.slice(0, 2000)}>{opened.header.title || 'Attention'}</h1>
          <span class="group">
            {alone && (
              <button
                type="button"
                title="Light or dark: d"
                aria-label={`Colors: ${mode.chosen}`}
                onClick={nextMode}
              >
                {{ auto: '◐', light: '○', dark: '●' }[mode.chosen]}
                <span class="wide"> {mode.chosen}</span>
              </button>
            )}
            <button
              type="button"
              title="Keys and views: ?"
              aria-label="Help"
              onClick={() => setHelp(true)}
            >
              ?<span class="wide"> Help</span>
            </button>
          </span>
        </div>
        <Badges opened={opened} choices={choices} />
      </header>
      <ViewTabs id={place.id} opened={opened} choices={choices} change={change} />
      <div role="tabpanel" id={`${place.id}-panel`} aria-labeledby={`${place.id}-tab-${view.id}`}>
        <Controls
          {...{ opened, view, choices, theme, change, zoom }}
          narrow={size.width < NARROW}
          stepLayer={(by) => acts.stepLayer(choices, by)}
          stepHead={(by) => acts.stepHead(choices, by)}
        />
        <div class="drawing" ref={box} aria-busy={!loaded.view && !missing && !loaded.failure}>
          <div ref={top} />
          {missing && <p class="message">{missing}</p>}
          {!missing && loaded.failure && (
            <p class="message warn" role="alert">
              {loaded.failure}
            </p>
          )}
          {!missing && !loaded.failure && !loaded.view && <p class="message">Opening…</p>}
          {!missing &&
            !loaded.failure &&
            loaded.view &&
            size.width > 0 &&
            (choices.table ? (
              <TableView view={loaded.view} frame={frame} height={size.height} />
            ) : (
              <Guard what={loaded.choices}>
                <Stage
                  {...{ opened, theme, measure, change, drawn }}
                  view={loaded.view}
                  choices={loaded.choices}
                  width={size.width}
                  height={size.height}
                  place={place}
                  toggle={(target) => change(toggled(choices, target))}
                />
              </Guard>
            ))}
        </div>
        {!missing && loaded.view && (
          <footer>
            <p class="caption">
              {choices.table ? view.about : shown?.summary}{' '}
              {!choices.table && shown?.note && <span class="dim">{shown.note}</span>}
            </p>
            <Takeaway
              {...{ view: loaded.view, frame, theme, measure, choices, change }}
              drawing={() => drawing.current}
            />
          </footer>
        )}
      </div>
      <p id={`${place.id}-keys`} class="quiet">
        Arrow keys move, Enter chooses, Space adds or takes away, Escape leaves, t shows a table,
        question mark lists all keys.
      </p>
      {help && <Help id={place.id} views={VIEWS} close={() => setHelp(false)} />}
    </div>
  );
}

function toggled(choices: Choices, target: Target): Partial<Choices> {
  const { what, index, layer } = target.toggles ?? { what: 'queries' as const, index: -1 };
  const elsewhere = layer !== undefined && layer !== choices.layer;
  const old = elsewhere ? [] : choices[what];
  const members = old.includes(index)
    ? old.filter((each) => each !== index)
    : [...old, index].sort((a, b) => a - b);
  return { [what]: members, ...(elsewhere ? { layer } : {}) };
}

function actions(opened: Opened, change: (some: Partial<Choices>) => void) {
  const round = (at: number, by: number, all: number): number => (at + by + all) % all;
  return {
    stepLayer(choices: Choices, by: number): void {
      const view = viewOf(choices.view);
      const all =
        view.layers?.(opened, choices) ?? opened.header.sides[choices.side].layers.map((_, i) => i);
      if (all.length)
        change({ layer: all[round(Math.max(0, all.indexOf(choices.layer)), by, all.length)] });
    },
    stepHead(choices: Choices, by: number): void {
      const heads = opened.header.sides[choices.side].layers[choices.layer]?.heads.length ?? 0;
      if (!heads) return;
      const [at] = choices.heads;
      change({
        heads: [at === undefined ? (by > 0 ? 0 : heads - 1) : round(at, by, heads)],
        mean: false,
      });
    },
    stepToken(choices: Choices, by: number): void {
      const [first, last, shown] = viewOf(choices.view).steps?.(opened, choices) ?? [0, 0];
      if (last > first)
        change({ step: Math.max(first, Math.min(last, (shown ?? choices.step ?? first) + by)) });
    },
  };
}
