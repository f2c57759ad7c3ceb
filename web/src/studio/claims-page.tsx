// Claims: the newest results, the claims that were not run, and a button that runs some.

import { useEffect, useState } from 'preact/hooks';
import planeCss from '../playground/plane.css?inline';
import baseCss from '../report/base.css?inline';
import { App } from '../report/claims/app';
import claimsCss from '../report/claims/claims.css?inline';
import type { Ledger } from '../report/claims/ledger';
import { Guard } from '../shared/guard';
import { ask, told } from './api';
import { useClient } from './client';
import { Isolated } from './isolated';
import { JobBar } from './job-bar';
import type { Page } from './page';
import { Busy, Failure } from './parts';
import { mergedLedger } from './registry';
import { innerAddress, type Router } from './router';

const JOB = 'claims';
const CSS = baseCss + planeCss + claimsCss;
type Size = 'small' | 'full';

export const claimsPage: Page = { name: 'claims', title: 'Claims', Shown: ClaimsPage };

function ClaimsPage({ router }: { router: Router }) {
  const { jobs } = useClient();
  const [ledger, setLedger] = useState<Ledger | null>(null);
  const [failure, setFailure] = useState('');
  const done = jobs.ended(JOB);
  const [wanted, setWanted] = useState<string[]>([]);
  const [size, setSize] = useState<Size>('small');
  useEffect(() => {
    const controller = new AbortController();
    ask('GET /api/claims', { signal: controller.signal }).then(
      (found) => {
        setFailure('');
        setLedger(mergedLedger(found));
      },
      (error: unknown) => {
        if (!controller.signal.aborted) setFailure(told(error));
      },
    );
    return () => controller.abort();
  }, [done]);
  const begin = (ids: string[]): void => void jobs.run(JOB, 'POST /api/claims', { ids, size });
  if (failure && !ledger) return <Failure text={failure} />;
  if (!ledger) return <Busy text="Reading the claims…" />;
  return (
    <>
      <div class="bar">
        <JobBar
          name={JOB}
          what={wanted.length === 1 ? 'Run this claim' : `Run these ${wanted.length} claims`}
          begin={() => begin(wanted)}
          disabled={!wanted.length}
          quiet
        />
        <label>
          <span>Size</span>{' '}
          <select value={size} onChange={(event) => setSize(event.currentTarget.value as Size)}>
            <option value="small">small: seconds each</option>
            <option value="full">full: minutes each</option>
          </select>
        </label>
        <span class="dim small">What the filters below show is run.</span>
        <Failure text={failure} />
      </div>
      <Guard what={ledger}>
        <Isolated
          css={CSS}
          address={innerAddress(router.route.page)}
          show={(root) => (
            <App
              ledger={ledger}
              root={root}
              shows={(claims) => setWanted(claims.map((each) => each.id))}
            />
          )}
        />
      </Guard>
    </>
  );
}
