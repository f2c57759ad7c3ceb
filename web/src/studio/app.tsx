// The frame of all pages: navigation, state of the connection, and the page.

import { useEffect, useRef } from 'preact/hooks';
import { ColorModeButton, useColors } from '../report/page-frame';
import { ErrorBoundary } from '../shared/error-boundary';
import { useColorMode } from '../shared/color-mode';
import { useWindowState } from './window-state';
import { PagesContext } from './page-declaration';
import { findPage, PAGES } from './pages';
import { useRouter } from './router';
import { linkTo } from './route-format';

export function App({ root }: { root: HTMLElement }) {
  const [mode, nextMode] = useColorMode({ root, notebook: false });
  useColors(mode.now);
  const router = useRouter();
  const { name: page, title, Component } = findPage(router.route.page);
  const main = useRef<HTMLElement>(null);
  const first = useRef(true);
  useEffect(() => {
    document.title = `${title} · attnlab studio`;
    root.dataset.page = page;
    if (!first.current) main.current?.focus({ preventScroll: true });
    if (!first.current) window.scrollTo(0, 0);
    first.current = false;
  }, [page]);
  return (
    <PagesContext.Provider value={PAGES}>
      <button type="button" class="skip" onClick={() => main.current?.focus()}>
        Skip to the page
      </button>
      <header class="top">
        <a class="brand" href={linkTo('runs')}>
          attnlab <strong>studio</strong>
        </a>
        <Navigation page={page} />
        <ConnectionLabel />
        <ColorModeButton chosen={mode.chosen} next={nextMode} />
      </header>
      <LostConnection />
      <main ref={main} tabIndex={-1} aria-label={title}>
        <ErrorBoundary what={page}>
          <Component key={page} router={router} />
        </ErrorBoundary>
      </main>
    </PagesContext.Provider>
  );
}

function Navigation({ page }: { page: string }) {
  const nav = useRef<HTMLElement>(null);
  useEffect(() => {
    const current = nav.current?.querySelector<HTMLElement>('[aria-current]');
    if (current && nav.current) nav.current.scrollLeft = current.offsetLeft - nav.current.clientWidth / 2;
  }, [page]);
  return (
    <nav aria-label="Pages" ref={nav}>
      {PAGES.map(({ name, title }) => (
        <a key={name} href={linkTo(name)} aria-current={name === page ? 'page' : undefined}>
          {title}
        </a>
      ))}
    </nav>
  );
}

const STATES = {
  connecting: 'connecting',
  live: 'live',
  lost: 'connection lost',
  rejected: 'not allowed',
  paused: 'paused',
} as const;

function ConnectionLabel() {
  const { link } = useWindowState();
  return (
    <span class="link" data-link={link.state} title={STATES[link.state]}>
      <i aria-hidden="true" />
      <span class="wide">{STATES[link.state]}</span>
    </span>
  );
}

// The page may show old data until the studio answers again.
function LostConnection() {
  const windowState = useWindowState();
  const { state, reason } = windowState.link;
  return (
    <div class="lost" role="status">
      {(state === 'lost' || state === 'rejected') && (
        <p>
          <strong>The connection is lost.</strong> {reason} The page may show old data
          {state === 'lost' ? '; trying again.' : '.'}
          <button type="button" onClick={() => windowState.reconnect()}>
            Try now
          </button>
        </p>
      )}
    </div>
  );
}
