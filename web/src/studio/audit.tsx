// The audit of a run, which shows whether it knows or guesses; starts one if there is none.

import { useEffect, useState } from 'preact/hooks';
import { Figure } from '../report/figure';
import { plainText } from '../report/text-format';
import { DEFAULT_FIGURE_OPTIONS, type FigureOptions } from '../report/figure-options';
import { request, RequestError, errorMessage } from './api';
import { readAudit, separateAnswers, type AuditContent, type AuditFigure } from './audit-plots';
import { useWindowState, useRemembered } from './window-state';
import { JobButton } from './job-button';
import { jobName } from './jobs';
import { BusyMessage, Command, Failure, FractionBar } from './components';

type AuditState = { page: AuditContent } | { missing: string } | { failure: string };

export function Audit({ run }: { run: string }) {
  const entry = useWindowState().runs?.find(({ id }) => id === run);
  return entry?.can.includes('audit') ? <AuditSection run={run} task={entry.task ?? ''} /> : null;
}

function AuditSection({ run, task }: { run: string; task: string }) {
  const { jobs } = useWindowState();
  const [audit, setAudit] = useState<AuditState | null>(null);
  const name = jobName({ kind: 'audit', run });
  const done = jobs.lastEndedId(name);
  useEffect(() => {
    const controller = new AbortController();
    request('GET /api/audit', { query: { run }, signal: controller.signal }).then(
      (raw) => setAudit({ page: readAudit(raw) }),
      (error: unknown) => {
        if (controller.signal.aborted) return;
        const missing = error instanceof RequestError && error.status === 404;
        setAudit(missing ? { missing: errorMessage(error) } : { failure: errorMessage(error) });
      },
    );
    return () => controller.abort();
  }, [run, done]);
  const start = (pairs?: string): void =>
    void jobs.run(name, 'POST /api/audit', { run, ...(pairs ? { pairs } : {}) });
  const failed = Boolean(jobs.of(name)?.failure);
  return (
    <section class="audit" aria-label="Audit">
      <h2>Knowledge or a guess?</h2>
      {!audit && <BusyMessage text="Reading the audit…" />}
      {audit && 'failure' in audit && <Failure text={audit.failure} />}
      {audit && 'missing' in audit && (
        <>
          <p>
            An audit asks this run many questions, also about invented people, and compares its
            confidence with its accuracy. This run has no audit yet.
          </p>
          <JobButton name={name} label="Audit it now" start={() => start()} />
          <p class="dim small">Or in a terminal:</p>
          <Command words={`attnlab ${plainText(task)} audit`} path={run} />
        </>
      )}
      {audit && 'page' in audit && <AuditResults page={audit.page} />}
      {audit && 'page' in audit && (
        <JobButton name={name} label="Audit it again" start={() => start()} quiet />
      )}
      {audit && (
        <OwnPairs open={failed} replaces={'page' in audit} busy={jobs.busy(name)} start={start} />
      )}
    </section>
  );
}

interface PairsProps {
  open: boolean; // the questions of the run are not available
  replaces: boolean; // there is an audit already
  busy: boolean;
  start: (pairs: string) => void;
}

// A form for your own questions and answers.
function OwnPairs({ open, replaces, busy, start }: PairsProps) {
  const { info } = useWindowState();
  const [pairs, setPairs] = useRemembered('audit pairs', '');
  const maxLength = info?.limits.pairs ?? 500_000;
  const take = (file: File | undefined): void => void file?.text().then(setPairs);
  return (
    <details class="own-pairs" open={open || Boolean(pairs)}>
      <summary>Audit it with your own questions</summary>
      <label class="field wide-field">
        <span>One question per line, with the answer after the question mark or a tab</span>
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
          disabled={busy || !pairs.trim() || pairs.length > maxLength}
          onClick={() => start(separateAnswers(pairs))}
        >
          Audit with these
        </button>
        <label class="button file">
          choose a file
          <input type="file" class="quiet" onChange={(event) => take(event.currentTarget.files?.[0])} />
        </label>
        {replaces && <span class="dim small">This replaces the audit above.</span>}
        {pairs.length > maxLength && (
          <span class="warn small">{`Give at most ${maxLength.toLocaleString('en')} characters.`}</span>
        )}
      </div>
    </details>
  );
}

function AuditResults({ page }: { page: AuditContent }) {
  return (
    <>
      <dl class="tiles">
        {page.tiles.map(({ name, value, note }) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd class="value number">{value}</dd>
            {note && <dd class="dim small">{plainText(note)}</dd>}
          </div>
        ))}
      </dl>
      <div class="curves">
        {page.figures.map((figure) => (
          <AuditPlot key={figure.title} figure={figure} />
        ))}
      </div>
      <Mistakes mistakes={page.mistakes} />
    </>
  );
}

function AuditPlot({ figure }: { figure: AuditFigure }) {
  const [options, setOptions] = useState<FigureOptions>(DEFAULT_FIGURE_OPTIONS);
  return (
    <div>
      <Figure plot={figure.plot} title={figure.title} options={options} change={setOptions} />
      <p class="dim small">{figure.note}</p>
    </div>
  );
}

function Mistakes({ mistakes }: { mistakes: AuditContent['mistakes'] }) {
  if (!mistakes.length) return null;
  return (
    <div class="scroll tall" tabIndex={0} role="region" aria-label="Called known, and wrong">
      <table>
        <caption>Called known, and wrong</caption>
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
          {mistakes.map((mistake, i) => (
            <tr key={i}>
              {[mistake.question, mistake.answer, mistake.gold].map((text, j) => (
                <td key={j}>
                  <bdi>{plainText(text)}</bdi>
                </td>
              ))}
              <td>
                <FractionBar value={mistake.confidence} />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
