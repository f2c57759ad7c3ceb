// The attention playground, as a page of the studio.

import { useEffect, useState } from 'preact/hooks';
import { App } from '../playground/app';
import planeCss from '../playground/plane.css?inline';
import playgroundCss from '../playground/playground.css?inline';
import type { Statements } from '../playground/statements';
import baseCss from '../report/base.css?inline';
import { ask } from './api';
import { Isolated } from './isolated';
import type { Page } from './page';
import { statementsOf } from './registry';
import { innerAddress, type Router } from './router';

const CSS = baseCss + planeCss + playgroundCss;

export const playgroundPage: Page = {
  name: 'playground',
  title: 'Playground',
  Shown: PlaygroundPage,
};

function PlaygroundPage({ router }: { router: Router }) {
  const [statements, setStatements] = useState<Statements>(new Map());
  useEffect(() => {
    const controller = new AbortController();
    ask('GET /api/claims', { signal: controller.signal }).then(
      (found) => setStatements(statementsOf(found)),
      () => undefined, // it plays without them too
    );
    return () => controller.abort();
  }, []);
  return (
    <Isolated
      css={CSS}
      address={innerAddress(router.route.page)}
      show={(root) => <App root={root} statements={statements} />}
    />
  );
}
