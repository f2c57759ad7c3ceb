// The attention playground, as a page of the studio.

import { useEffect, useState } from 'preact/hooks';
import { App } from '../playground/app';
import planeCss from '../playground/plane.css?inline';
import playgroundCss from '../playground/playground.css?inline';
import type { Statements } from '../playground/claim-statements';
import baseCss from '../report/base.css?inline';
import { request } from './api';
import { ShadowRootHost } from './shadow-root';
import type { Page } from './page-declaration';
import { claimStatements } from './merge-ledger';
import { innerAddress, type Router } from './router';

const CSS = baseCss + planeCss + playgroundCss;

export const playgroundPage: Page = {
  name: 'playground',
  title: 'Playground',
  Component: PlaygroundPage,
};

function PlaygroundPage({ router }: { router: Router }) {
  const [statements, setStatements] = useState<Statements>(new Map());
  useEffect(() => {
    const controller = new AbortController();
    request('GET /api/claims', { signal: controller.signal }).then(
      (claims) => setStatements(claimStatements(claims)),
      () => undefined, // the statements are optional
    );
    return () => controller.abort();
  }, []);
  return (
    <ShadowRootHost
      css={CSS}
      address={innerAddress(router.route.page)}
      show={(root) => <App root={root} statements={statements} />}
    />
  );
}
