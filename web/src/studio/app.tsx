// The shell: where one can go, whether the connection lives, and the page.

import type { ComponentChild } from 'preact';
import { useEffect, useRef } from 'preact/hooks';
import { ModeButton, useColours } from '../report/page';
import { Guard } from '../shared/guard';
import { useMode } from '../shared/mode';
import { AskPage } from './ask-page';
import { BenchPage } from './bench-page';
import { ClaimsPage } from './claims-page';
import { useClient } from './client';
import { LookPage } from './look-page';
import { PlaygroundPage } from './playground-page';
import { linkTo, PAGES, type Page } from './routes';
import { useRouter, type Router } from './router';
import { RunsPage } from './runs-page';
import { SeePage } from './see-page';
import { WritePage } from './write-page';

const NAMES: Record<Page, string> = {
  runs: 'Runs',
  ask: 'Ask',
  write: 'Write',
  see: 'See',
  look: 'Look',
  claims: 'Claims',
  playground: 'Playground',
  bench: 'Bench',
};

const SHOWN: Record<Page, (props: { router: Router }) => ComponentChild> = {
  runs: RunsPage,
  ask: AskPage,
  write: WritePage,
  see: SeePage,
  look: LookPage,
  claims: ClaimsPage,
  playground: PlaygroundPage,
  bench: BenchPage,
};

export function App({ root }: { root: HTMLElement }) {
  const [mode, nextMode] = useMode({ root, notebook: false });
  useColours(mode.now);
  const router = useRouter();
  const { page } = router.route;
  const main = useRef<HTMLElement>(null);
  const first = useRef(true);
  useEffect(() => {
    document.title = `${NAMES[page]} · attnlab studio`;
    root.dataset.page = page;
    if (!first.current) main.current?.focus({ preventScroll: true });
    if (!first.current) window.scrollTo(0, 0);
    first.current = false;
  }, [page]);
  const Shown = SHOWN[page];
  return (
    <>
      <button type="button" class="skip" onClick={() => main.current?.focus()}>
        To the page
      </button>
      <header class="top">
        <a class="brand" href={linkTo('runs')}>
          attnlab <strong>studio</strong>
        </a>
        <Pages page={page} />
        <Link />
        <ModeButton chosen={mode.chosen} next={nextMode} />
      </header>
      <Lost />
      <main ref={main} tabIndex={-1} aria-label={NAMES[page]}>
        <Guard what={page}>
          <Shown key={page} router={router} />
        </Guard>
      </main>
    </>
  );
}

function Pages({ page }: { page: Page }) {
  const nav = useRef<HTMLElement>(null);
  useEffect(() => {
    const on = nav.current?.querySelector<HTMLElement>('[aria-current]');
    if (on && nav.current) nav.current.scrollLeft = on.offsetLeft - nav.current.clientWidth / 2;
  }, [page]);
  return (
    <nav aria-label="Pages" ref={nav}>
      {PAGES.map((each) => (
        <a key={each} href={linkTo(each)} aria-current={each === page ? 'page' : undefined}>
          {NAMES[each]}
        </a>
      ))}
    </nav>
  );
}

const STATES = {
  begun: 'connecting',
  live: 'live',
  lost: 'connection lost',
  refused: 'not allowed',
  resting: 'resting',
} as const;

function Link() {
  const { link } = useClient();
  return (
    <span class="link" data-link={link.state} title={STATES[link.state]}>
      <i aria-hidden="true" />
      <span class="wide">{STATES[link.state]}</span>
    </span>
  );
}

// What is shown may be old until the studio answers again.
function Lost() {
  const client = useClient();
  const { state, why } = client.link;
  return (
    <div class="lost" role="status">
      {(state === 'lost' || state === 'refused') && (
        <p>
          <strong>The connection is lost.</strong> {why} What is shown may be old
          {state === 'lost' ? '; trying again.' : '.'}
          <button type="button" onClick={() => client.again()}>
            Try now
          </button>
        </p>
      )}
    </div>
  );
}
