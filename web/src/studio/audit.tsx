// The audit of a run: is it knowledge or a guess? Made here if it does not stand in the folder.

import { useEffect, useState } from 'preact/hooks';
import { Figure } from '../report/figure';
import { plain } from '../report/prose';
import { AS_GIVEN, type Shown } from '../report/shown';
import { ask, Refused, told } from './api';
import { readAudit, tabbed, type AuditPage, type Told } from './audit-plots';
import { useClient, useKept } from './client';
import { JobBar } from './job-bar';
import { nameOf } from './jobs';
import { Busy, Command, Failure, Share } from './parts';

type Found = { page: AuditPage } | { missing: string } | { failure: string };

export function Audit({ run }: { run: string }) {
  const found = useClient().runs?.find(({ id }) => id === run);
  return found?.can.includes('audit') ? <Audited run={run} task={found.task ?? ''} /> : null;
}

function Audited({ run, task }: { run: string; task: string }) {
  const { jobs } = useClient();
  const [found, setFound] = useState<Found | null>(null);
  const name = nameOf({ kind: 'audit', about: run });
  const done = jobs.ended(name);
  useEffect(() => {
    const controller = new AbortController();
    ask('GET /api/audit', { query: { run }, signal: controller.signal }).then(
      (raw) => setFound({ page: readAudit(raw) }),
      (error: unknown) => {
        if (controller.signal.aborted) return;
        const missing = error instanceof Refused && error.status === 404;
        setFound(missing ? { missing: told(error) } : { failure: told(error) });
      },
    );
    return () => controller.abort();
  }, [run, done]);
  const begin = (pairs?: string): void =>
    void jobs.run(name, 'POST /api/audit', { run, ...(pairs ? { pairs } : {}) });
  const failed = Boolean(jobs.of(name)?.failure);
  return (
    <section class="audit" aria-label="Audit">
      <h2>Knowledge or a guess?</h2>
      {!found && <Busy text="Reading the audit…" />}
      {found && 'failure' in found && <Failure text={found.failure} />}
      {found && 'missing' in found && (
        <>
          <p>
            An audit asks this run many questions, also about people who do not exist, and compares
            its confidence with what is right. This run has none yet.
          </p>
          <JobBar name={name} what="Audit it now" begin={() => begin()} />
          <p class="dim small">Or in a terminal:</p>
          <Command words={`attnlab ${plain(task)} audit`} of={run} />
        </>
      )}
      {found && 'page' in found && <Results page={found.page} />}
      {found && 'page' in found && (
        <JobBar name={name} what="Audit it again" begin={() => begin()} quiet />
      )}
      {found && (
        <OwnPairs open={failed} replaces={'page' in found} busy={jobs.busy(name)} begin={begin} />
      )}
    </section>
  );
}

interface PairsProps {
  open: boolean; // the run's own questions were not found
  replaces: boolean; // there is an audit
  busy: boolean;
  begin: (pairs: string) => void;
}

// Questions whose answers the reader knows.
function OwnPairs({ open, replaces, busy, begin }: PairsProps) {
  const { info } = useClient();
  const [pairs, setPairs] = useKept('audit pairs', '');
  const most = info?.limits.pairs ?? 500_000;
  const take = (file: File | undefined): void => void file?.text().then(setPairs);
  return (
    <details class="own-pairs" open={open || Boolean(pairs)}>
      <summary>Audit it with questions of your own</summary>
      <label class="field wide-field">
        <span>In each line a question and, behind its question mark or a tab, the answer</span>
        <textarea
          rows={4}
          value={pairs}
          placeholder="Where was … born? Paris"
          spellcheck={false}
          onInput={(event) => setPairs(event.currentTarget.value)}
        />
      </label>
      <div class="row">
        <button
          type="button"
          disabled={busy || !pairs.trim() || pairs.length > most}
          onClick={() => begin(tabbed(pairs))}
        >
          Audit with these
        </button>
        <label class="button file">
          choose a file
          <input type="file" class="quiet" onChange={(event) => take(event.currentTarget.files?.[0])} />
        </label>
        {replaces && <span class="dim small">The audit above is replaced.</span>}
        {pairs.length > most && (
          <span class="warn small">{`${most.toLocaleString('en')} characters are the most.`}</span>
        )}
      </div>
    </details>
  );
}

function Results({ page }: { page: AuditPage }) {
  return (
    <>
      <dl class="tiles">
        {page.tiles.map(({ name, value, note }) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd class="value number">{value}</dd>
            {note && <dd class="dim small">{plain(note)}</dd>}
          </div>
        ))}
      </dl>
      <div class="curves">
        {page.figures.map((figure) => (
          <One key={figure.title} figure={figure} />
        ))}
      </div>
      <Mistakes mistakes={page.mistakes} />
    </>
  );
}

function One({ figure }: { figure: Told }) {
  const [shown, setShown] = useState<Shown>(AS_GIVEN);
  return (
    <div>
      <Figure plot={figure.plot} title={figure.title} shown={shown} change={setShown} />
      <p class="dim small">{figure.note}</p>
    </div>
  );
}

function Mistakes({ mistakes }: { mistakes: AuditPage['mistakes'] }) {
  if (!mistakes.length) return null;
  return (
    <div class="scroll tall" tabIndex={0} role="region" aria-label="Sure and wrong">
      <table>
        <caption>Sure and wrong: the mistakes it was most confident of</caption>
        <thead>
          <tr>
            {['question', 'its answer', 'right answer', 'confidence'].map((name) => (
              <th key={name} scope="col">
                {name}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {mistakes.map((each, i) => (
            <tr key={i}>
              {[each.question, each.answer, each.gold].map((text, j) => (
                <td key={j}>
                  <bdi>{plain(text)}</bdi>
                </td>
              ))}
              <td>
                <Share value={each.confidence} />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
