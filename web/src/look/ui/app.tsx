// The whole page: title, badges, tabs, toolbar, drawing or table, and downloads.

import { useCallback, useContext, useEffect, useMemo, useRef, useState } from 'preact/hooks';
import type { Capture } from '../capture';
import {
  clampChoices,
  formatAddress,
  initialChoices,
  parseAddress,
  type Choices,
} from '../choices';
import { createMeasure } from '../../shared/text-width';
import { PageContext, useAddressState } from '../../shared/page-address';
import { zoomAt } from '../navigation';
import { theme as themeOf } from '../../shared/theme';
import type { Drawing, Frame, Target, View } from '../view';
import { VIEWS } from '../views/index';
import { usePrefetch } from './prefetch';
import { Badges } from './badges';
import { Controls } from './controls';
import { ErrorBoundary } from '../../shared/error-boundary';
import { Help } from './help';
import { InterestingHeads } from './interesting-heads';
import { useLoaded, useSize } from './hooks';
import { listenForKeys } from './global-keys';
import { usePrintCanvas } from './print-canvas';
import { useColorMode } from '../../shared/color-mode';
import { DrawingArea } from './drawing-area';
import { TableView } from './table-view';
import { ViewTabs } from './view-tabs';
import { Downloads } from './downloads';

export interface Host {
  root: HTMLElement;
  notebook: boolean; // no URL fragment, no keys outside the element, a fixed height
  id: string; // prefix of element ids: a notebook can hold several widgets
}

export function findView(id: string): View {
  return VIEWS.find((view) => view.id === id) ?? VIEWS[0];
}

// Clamps choices to the capture and selects a layer that the view can show.
function settleChoices(choices: Choices, capture: Capture): Choices {
  const clamped = clampChoices(choices, capture.header);
  const view = findView(clamped.view);
  const layers = view.missingReason(capture, clamped) ? undefined : view.layers?.(capture, clamped);
  if (!layers?.length || layers.includes(clamped.layer)) return { ...clamped, view: view.id };
  const layer = layers.find((each) => each >= clamped.layer) ?? layers[layers.length - 1];
  return clampChoices({ ...choices, view: view.id, layer }, capture.header);
}

export function App({ capture, host }: { capture: Capture; host: Host }) {
  const { alone, address } = useContext(PageContext);
  const [choices, setChoices] = useState<Choices>(() =>
    settleChoices(
      parseAddress((host.notebook ? '' : address.read()) ?? '', initialChoices(capture.header)),
      capture,
    ),
  );
  const beforeFlow = useRef<Partial<Choices> | null>(null);
  const [mode, nextMode] = useColorMode(host);
  const [help, setHelp] = useState(false);
  const measure = useMemo(() => createMeasure(document.createElement('canvas').getContext('2d')), []);
  const theme = themeOf(mode.now);
  const view = findView(choices.view);

  const change = useCallback(
    (changes: Partial<Choices>) =>
      setChoices((previous) => {
        const layerChanged = changes.layer !== undefined && changes.layer !== previous.layer;
        const resets = {
          ...layerOfFlow(capture, previous, changes, beforeFlow),
          ...(changes.words !== undefined || changes.side !== undefined ? { zoom: null } : {}),
          ...(changes.side !== undefined ? { against: null } : {}), // it referred to the previous side
        };
        const next = settleChoices({ ...previous, ...resets, ...changes }, capture);
        return layerChanged && !changes.heads && next.heads.length !== previous.heads.length
          ? settleChoices({ ...next, heads: [] }, capture)
          : next;
      }),
    [capture],
  );
  useAddressState(
    formatAddress(choices, settleChoices(initialChoices(capture.header), capture)),
    (text) =>
      setChoices(settleChoices(parseAddress(text, initialChoices(capture.header)), capture)),
    !host.notebook,
  );

  const actions = useMemo(() => makeActions(capture, change), [capture, change]);
  const drawing = useRef<Drawing | null>(null);
  const latestChoices = useRef(choices);
  latestChoices.current = choices;
  useEffect(
    () =>
      listenForKeys(host, {
        choices: () => latestChoices.current,
        views: VIEWS,
        change,
        help: () => setHelp(true),
        mode: nextMode,
        stepLayer: (by) => actions.stepLayer(latestChoices.current, by),
        stepHead: (by) => actions.stepHead(latestChoices.current, by),
        stepToken: (by) => actions.stepToken(latestChoices.current, by),
      }),
    [host, actions],
  );

  const [size, box, top] = useSize(host);
  const missing = view.missingReason(capture, choices);
  const loaded = useLoaded(capture, missing ? null : view, choices);
  // tests and benchmarks wait for this attribute
  useEffect(() => {
    const done = missing || loaded.failure || (loaded.view === view && loaded.choices === choices);
    if (done) host.root.dataset.painted = view.id;
    else delete host.root.dataset.painted;
  });
  const frame: Frame = {
    capture,
    choices: loaded.choices,
    width: size.width,
    height: size.height,
    measure,
  };
  usePrefetch(missing || choices.table || !loaded.view ? null : frame, (next) =>
    settleChoices(next, capture),
  );
  const onDrawn = useCallback((drawing: Drawing | null) => setShownDrawing(drawing), []);
  const [shownDrawing, setShownDrawing] = useState<Drawing | null>(null);
  drawing.current = missing || choices.table ? null : shownDrawing;
  usePrintCanvas(box, () => drawing.current, measure);

  const zoom = (factor: number): void => {
    const zoomed = drawing.current?.zoom;
    if (zoomed)
      change({ zoom: zoomAt(zoomed, factor, zoomed.x + zoomed.w / 2, zoomed.y + zoomed.h / 2) });
  };
  return (
    <div class="shell" data-theme={mode.now}>
      <header>
        <div class="heading">
          <h1 title={capture.header.title.slice(0, 2000)}>{capture.header.title || 'Attention'}</h1>
          <span class="group">
            {alone && (
              <button
                type="button"
                title="Light or dark colors. Key: d"
                aria-label={`Colors: ${mode.chosen}`}
                onClick={nextMode}
              >
                {{ auto: '◐', light: '○', dark: '●' }[mode.chosen]}
                <span class="wide"> {mode.chosen}</span>
              </button>
            )}
            <button
              type="button"
              title="Views and keys. Key: ?"
              aria-label="Help"
              onClick={() => setHelp(true)}
            >
              ?<span class="wide"> Help</span>
            </button>
          </span>
        </div>
        <Badges capture={capture} choices={choices} />
      </header>
      <ViewTabs id={host.id} capture={capture} choices={choices} change={change} />
      <div role="tabpanel" id={`${host.id}-panel`} aria-labelledby={`${host.id}-tab-${view.id}`}>
        <Controls
          {...{ capture, view, choices, theme, change, zoom }}
          stepLayer={(by) => actions.stepLayer(choices, by)}
          stepHead={(by) => actions.stepHead(choices, by)}
        />
        <InterestingHeads {...{ capture, view, choices, change }} />
        {!missing && !choices.table && (
          <p class="finding" aria-live="polite">
            {shownDrawing?.summary}
          </p>
        )}
        <div class="drawing" ref={box} aria-busy={!loaded.view && !missing && !loaded.failure}>
          <div ref={top} />
          {missing && <p class="message">{missing}</p>}
          {!missing && loaded.failure && (
            <p class="message warn" role="alert">
              {loaded.failure}
            </p>
          )}
          {!missing && !loaded.failure && !loaded.view && <p class="message">Loading…</p>}
          {!missing &&
            !loaded.failure &&
            loaded.view &&
            size.width > 0 &&
            (choices.table ? (
              <TableView view={loaded.view} frame={frame} height={size.height} />
            ) : (
              <ErrorBoundary what={loaded.choices}>
                <DrawingArea
                  {...{ capture, theme, measure, change, onDrawn }}
                  view={loaded.view}
                  choices={loaded.choices}
                  width={size.width}
                  height={size.height}
                  host={host}
                  toggle={(target) => change(toggleTarget(choices, target))}
                />
              </ErrorBoundary>
            ))}
        </div>
        {!missing && loaded.view && (
          <footer>
            <p class="caption">
              {choices.table ? view.description : <span class="dim">{shownDrawing?.note}</span>}
            </p>
            <Downloads
              {...{ view: loaded.view, frame, measure, choices, change }}
              mode={mode.now}
            />
          </footer>
        )}
      </div>
      <p id={`${host.id}-keys`} class="quiet">
        Arrow keys move, Enter selects, Space adds or removes, Escape leaves, t shows a table,
        question mark lists all keys.
      </p>
      {help && <Help id={host.id} views={VIEWS} close={() => setHelp(false)} />}
    </div>
  );
}

// The flow view opens on the last layer, where all layers have added to it. Another view then shows
// the layer from before again.
function layerOfFlow(
  capture: Capture,
  previous: Choices,
  { view, layer }: Partial<Choices>,
  before: { current: Partial<Choices> | null },
): Partial<Choices> {
  if (view === undefined || view === previous.view || layer !== undefined) return {};
  if (view === 'flow') {
    const last = Math.max(...capture.header.sides[previous.side].flow.layers, -1);
    before.current = { layer: previous.layer, heads: previous.heads };
    return last < 0 ? {} : { layer: last, heads: [] };
  }
  if (previous.view !== 'flow' || !before.current) return {};
  const restored = before.current;
  before.current = null;
  const last = Math.max(...capture.header.sides[previous.side].flow.layers, -1);
  return previous.layer === last ? restored : {};
}

function toggleTarget(choices: Choices, target: Target): Partial<Choices> {
  const { set, index, layer } = target.toggles ?? { set: 'queries' as const, index: -1 };
  const otherLayer = layer !== undefined && layer !== choices.layer;
  const old = otherLayer ? [] : choices[set];
  const indices = old.includes(index)
    ? old.filter((each) => each !== index)
    : [...old, index].sort((a, b) => a - b);
  return { [set]: indices, ...(otherLayer ? { layer } : {}) };
}

function makeActions(capture: Capture, change: (changes: Partial<Choices>) => void) {
  const wrapIndex = (at: number, by: number, all: number): number => (at + by + all) % all;
  return {
    stepLayer(choices: Choices, step: number): void {
      const view = findView(choices.view);
      const layers =
        view.layers?.(capture, choices) ??
        capture.header.sides[choices.side].layers.map((_, i) => i);
      if (layers.length)
        change({
          layer: layers[wrapIndex(Math.max(0, layers.indexOf(choices.layer)), step, layers.length)],
        });
    },
    stepHead(choices: Choices, step: number): void {
      const heads = capture.header.sides[choices.side].layers[choices.layer]?.heads.length ?? 0;
      if (!heads) return;
      const [first] = choices.heads;
      change({
        heads: [first === undefined ? (step > 0 ? 0 : heads - 1) : wrapIndex(first, step, heads)],
        mean: false,
      });
    },
    stepToken(choices: Choices, step: number): void {
      const [first, last, current] = findView(choices.view).steps?.(capture, choices) ?? [0, 0];
      if (last > first)
        change({
          step: Math.max(first, Math.min(last, (current ?? choices.step ?? first) + step)),
        });
    },
  };
}
