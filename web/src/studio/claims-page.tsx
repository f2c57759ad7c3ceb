// Claims: shows all claims with their newest results, and runs the selected ones.

import { useEffect, useState } from 'preact/hooks';
import planeCss from '../playground/plane.css?inline';
import baseCss from '../report/base.css?inline';
import { App } from '../report/claims/app';
import { ClaimActionsContext } from '../report/claims/claim-actions';
import claimsCss from '../report/claims/claims.css?inline';
import type { Ledger } from '../report/claims/ledger';
import { ErrorBoundary } from '../shared/error-boundary';
import { request, errorMessage } from './api';
import { useWindowState } from './window-state';
import { ShadowRootHost } from './shadow-root';
import { JobButton } from './job-button';
import type { Page } from './page-declaration';
import { BusyMessage, Failure } from './components';
import { mergeLedger } from './merge-ledger';
import { linkTo } from './route-format';
import { innerAddress, type Router } from './router';

const JOB = 'claims';
const CSS = baseCss + planeCss + claimsCss;
type Size = 'small' | 'full';

export const claimsPage: Page = { name: 'claims', title: 'Claims', Component: ClaimsPage };

function ClaimsPage({ router }: { router: Router }) {
  const { jobs } = useWindowState();
  const [ledger, setLedger] = useState<Ledger | null>(null);
  const [failure, setFailure] = useState('');
  const done = jobs.lastEndedId(JOB);
  const job = jobs.of(JOB)?.job;
  const finished = job?.done ?? 0; // claims of the running job: their results are shown at once
  const [selected, setSelected] = useState<string[]>([]);
  const [size, setSize] = useState<Size>('small');
  useEffect(() => {
    const controller = new AbortController();
    request('GET /api/claims', { signal: controller.signal }).then(
      (response) => {
        setFailure('');
        setLedger(mergeLedger(response));
      },
      (error: unknown) => {
        if (!controller.signal.aborted) setFailure(errorMessage(error));
      },
    );
    return () => controller.abort();
  }, [done, finished]);
  const start = (ids: string[]): void => void jobs.run(JOB, 'POST /api/claims', { ids, size });
  const busy = jobs.busy(JOB);
  const actions = {
    run: (id: string) => start([id]),
    running: new Set(busy ? job?.message.split(', ') : []),
    busy,
    sceneLink: (id: string) => linkTo('playground', {}, `preset=${id}`),
  };
  if (failure && !ledger) return <Failure text={failure} />;
  if (!ledger) return <BusyMessage text="Reading the claims…" />;
  return (
    <>
      <div class="bar">
        <JobButton
          name={JOB}
          label={selected.length === 1 ? 'Run this claim' : `Run these ${selected.length} claims`}
          start={() => start(selected)}
          disabled={!selected.length}
          quiet
        />
        <label>
          <span>Size</span>{' '}
          <select value={size} onChange={(event) => setSize(event.currentTarget.value as Size)}>
            <option value="small">small: seconds each</option>
            <option value="full">full: minutes each</option>
          </select>
        </label>
        <span class="dim small">Runs the claims that the filters below show.</span>
        <Failure text={failure} />
      </div>
      <ErrorBoundary what={ledger}>
        <ShadowRootHost
          css={CSS}
          address={innerAddress(router.route.page)}
          show={(root) => (
            <ClaimActionsContext.Provider value={actions}>
              <App
                ledger={ledger}
                root={root}
                shows={(claims) => setSelected(claims.map(({ id }) => id))}
              />
            </ClaimActionsContext.Provider>
          )}
        />
      </ErrorBoundary>
    </>
  );
}
