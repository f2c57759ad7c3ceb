// The shell: where one can go, whether the connection lives, and the page.

import { useEffect, useRef } from 'preact/hooks';
import { ModeButton, useColors } from '../report/page';
import { Guard } from '../shared/guard';
import { useMode } from '../shared/mode';
import { useClient } from './client';
import { Pages } from './page';
import { pageNamed, PAGES } from './pages';
import { useRouter } from './router';
import { linkTo } from './routes';

export function App({ root }: { root: HTMLElement }) {
  const [mode, nextMode] = useMode({ root, notebook: false });
  useColors(mode.now);
  const router = useRouter();
  const { name: page, title, Shown } = pageNamed(router.route.page);
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
    <Pages.Provider value={PAGES}>
      <button type="button" class="skip" onClick={() => main.current?.focus()}>
        To the page
      </button>
      <header class="top">
        <a class="brand" href={linkTo('runs')}>
          attnlab <strong>studio</strong>
        </a>
        <Bar page={page} />
        <Link />
        <ModeButton chosen={mode.chosen} next={nextMode} />
      </header>
      <Lost />
      <main ref={main} tabIndex={-1} aria-label={title}>
        <Guard what={page}>
          <Shown key={page} router={router} />
        </Guard>
      </main>
    </Pages.Provider>
  );
}

function Bar({ page }: { page: string }) {
  const nav = useRef<HTMLElement>(null);
  useEffect(() => {
    const on = nav.current?.querySelector<HTMLElement>('[aria-current]');
    if (on && nav.current) nav.current.scrollLeft = on.offsetLeft - nav.current.clientWidth / 2;
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
