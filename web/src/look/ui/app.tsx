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
import type { Drawing, Frame } from '../view';
import { findView, VIEWS } from '../views/index';
import { layerOfFlow, makeActions, toggleTarget } from './choice-actions';
import { usePrefetch } from './prefetch';
import { Badges } from './badges';
import { Controls } from './controls';
import { ErrorBoundary } from '../../shared/error-boundary';
import { Help } from './help';
import { HeadSwitches } from './head-switches';
import { InterestingHeads } from './interesting-heads';
import { useLoaded, useSize } from './hooks';
import { listenForKeys } from './global-keys';
import { usePrintCanvas } from './print-canvas';
import { useColorMode } from '../../shared/color-mode';
import { DrawingArea } from './drawing-area';
import { TableView } from './table-view';
import { ViewTabs } from './view-tabs';
import { Downloads } from './downloads';
import { PresenterBar, Slides } from './presenter';
import { usePresentation } from './use-presentation';
import { formatPresentation, presentationScale, slideTitle } from '../slides';

export interface Host {
  root: HTMLElement;
  notebook: boolean; // no URL fragment, no keys outside the element, a fixed height
  id: string; // prefix of element ids: a notebook can hold several widgets
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
  const canPresent = alone && !host.notebook;
  const show = (slide: Choices): void => setChoices(settleChoices(slide, capture));
  const presenter = usePresentation({
    enabled: canPresent,
    fragment: address.read() ?? '',
    show,
  });
  const { presentation, presenting, at } = presenter;
  const { slides } = presentation;
  const [listing, setListing] = useState(false);
  const beforeFlow = useRef<Partial<Choices> | null>(null);
  const [mode, nextMode] = useColorMode(host);
  const [help, setHelp] = useState(false);
  const measure = useMemo(() => createMeasure(document.createElement('canvas').getContext('2d')), []);
  const theme = themeOf(mode.now);
  const view = findView(choices.view);
  const Page = view.page;

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
    [
      formatAddress(choices, settleChoices(initialChoices(capture.header), capture)),
      formatPresentation(presentation),
    ]
      .filter(Boolean)
      .join('&'),
    (text) => {
      setChoices(settleChoices(parseAddress(text, initialChoices(capture.header)), capture));
      presenter.read(text);
    },
    !host.notebook,
  );
  const startPresentation = (): void => {
    setListing(false);
    presenter.start(choices);
  };

  const actions = useMemo(() => makeActions(capture, change), [capture, change]);
  const drawing = useRef<Drawing | null>(null);
  const latestChoices = useRef(choices);
  latestChoices.current = choices;
  const latestStart = useRef(startPresentation);
  latestStart.current = startPresentation;
  const latestPresenter = useRef(presenter);
  latestPresenter.current = presenter;
  useEffect(
    () =>
      listenForKeys(host, {
        choices: () => latestChoices.current,
        views: VIEWS,
        change,
        help: () => setHelp(true),
        mode: nextMode,
        present: () => canPresent && latestStart.current(),
        addView: () => {
          if (!canPresent) return;
          latestPresenter.current.add(latestChoices.current);
          setListing(true);
        },
        stepLayer: (by) => actions.stepLayer(latestChoices.current, by),
        stepHead: (by) => actions.stepHead(latestChoices.current, by),
        stepStage: (by) => actions.stepStage(latestChoices.current, by),
        stepToken: (by) => actions.stepToken(latestChoices.current, by),
      }),
    [host, actions],
  );

  const [size, box, top] = useSize(host, presenting);
  const scale = presenting ? presentationScale(window.innerWidth, window.innerHeight) : 1;
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
    width: Math.floor(size.width / scale),
    height: Math.floor(size.height / scale),
    measure,
  };
  usePrefetch(missing || choices.table || !loaded.view ? null : frame, (next) =>
    settleChoices(next, capture),
  );
  const onDrawn = useCallback((drawing: Drawing | null) => setShownDrawing(drawing), []);
  const [shownDrawing, setShownDrawing] = useState<Drawing | null>(null);
  drawing.current = missing || choices.table || Page ? null : shownDrawing;
  usePrintCanvas(box, () => drawing.current, measure);

  const zoom = (factor: number): void => {
    const zoomed = drawing.current?.zoom;
    if (zoomed)
      change({ zoom: zoomAt(zoomed, factor, zoomed.x + zoomed.w / 2, zoomed.y + zoomed.h / 2) });
  };
  return (
    <div
      class={presenting ? 'shell presenting' : 'shell'}
      data-theme={mode.now}
      style={presenting ? { '--scale': scale } : undefined}
    >
      <header hidden={presenting}>
        <div class="heading">
          <h1 title={capture.header.title.slice(0, 2000)}>{capture.header.title || 'Attention'}</h1>
          <span class="group">
            {canPresent && (
              <button
                type="button"
                aria-expanded={listing}
                title="Save views, and show them in full screen. Key: p starts"
                aria-label="Present"
                onClick={() => setListing(!listing)}
              >
                ▷<span class="wide"> Present</span>
                {slides.length > 0 && <span class="number"> {slides.length}</span>}
              </button>
            )}
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
      {listing && !presenting && (
        <Slides
          {...{ capture, presentation, choices, show }}
          setSlides={presenter.setSlides}
          start={startPresentation}
          close={() => setListing(false)}
        />
      )}
      {!presenting && <ViewTabs id={host.id} capture={capture} choices={choices} change={change} />}
      <div role="tabpanel" id={`${host.id}-panel`} aria-labelledby={`${host.id}-tab-${view.id}`}>
        {!presenting && (
          <>
            <Controls
              {...{ capture, view, choices, theme, change, zoom }}
              stepLayer={(by) => actions.stepLayer(choices, by)}
              stepHead={(by) => actions.stepHead(choices, by)}
            />
            <InterestingHeads {...{ capture, view, choices, change }} />
          </>
        )}
        {view.id === 'effect' && !missing && !presenting && <HeadSwitches {...{ capture, choices, change }} />}
        {!missing && !choices.table && !Page && (
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
            ) : loaded.view.page ? (
              <ErrorBoundary what={loaded.choices}>
                <loaded.view.page {...{ frame, change }} mode={mode.now} />
              </ErrorBoundary>
            ) : (
              <ErrorBoundary what={loaded.choices}>
                <DrawingArea
                  {...{ capture, theme, measure, change, onDrawn }}
                  view={loaded.view}
                  choices={loaded.choices}
                  width={frame.width}
                  height={frame.height}
                  scale={scale}
                  host={host}
                  toggle={(target) => change(toggleTarget(choices, target))}
                />
              </ErrorBoundary>
            ))}
        </div>
        {!missing && loaded.view && !presenting && (
          <footer>
            <p class="caption">
              {choices.table ? view.description : <span class="dim">{!Page && shownDrawing?.note}</span>}
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
      {presenting && (
        <PresenterBar
          at={at}
          count={slides.length}
          title={slideTitle(capture, findView(slides[at].view), slides[at])}
          go={presenter.goTo}
          exit={presenter.stop}
        />
      )}
      {help && <Help id={host.id} views={VIEWS} close={() => setHelp(false)} />}
    </div>
  );
}
