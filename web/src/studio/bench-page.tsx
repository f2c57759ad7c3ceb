// Bench: lists and shows bench reports, and measures new ones.

import { useEffect, useState } from 'preact/hooks';
import baseCss from '../report/base.css?inline';
import { App, checkReport } from '../report/app';
import { plainText } from '../report/text-format';
import reportCss from '../report/report.css?inline';
import type { Report } from '../report/report-types';
import { ErrorBoundary } from '../shared/error-boundary';
import { request, errorMessage } from './api';
import type { BenchFile, BenchFilesResponse, BenchRequest } from './api-types';
import { useWindowState } from './window-state';
import { formatAge } from './format';
import { ShadowRootHost } from './shadow-root';
import { JobButton } from './job-button';
import type { Page } from './page-declaration';
import { BusyMessage, Command, EmptyPage, Failure } from './components';
import { innerAddress, type Router } from './router';

const JOB = 'bench';
const CSS = baseCss + reportCss;
const PARTS: BenchRequest['part'][] = ['error', 'speed', 'memory', 'decode'];

export const benchPage: Page = { name: 'bench', title: 'Bench', Component: BenchPage };

function BenchPage({ router }: { router: Router }) {
  const { jobs } = useWindowState();
  const [files, setFiles] = useState<BenchFile[] | null>(null);
  const [failure, setFailure] = useState('');
  const done = jobs.lastEndedId(JOB);
  const [part, setPart] = useState<BenchRequest['part']>('error');
  const [quick, setQuick] = useState(true);
  useEffect(() => {
    const controller = new AbortController();
    request('GET /api/bench', { signal: controller.signal }).then(
      (response) => {
        setFailure('');
        setFiles((response as BenchFilesResponse).files);
      },
      (error: unknown) => {
        if (!controller.signal.aborted) setFailure(errorMessage(error));
      },
    );
    return () => controller.abort();
  }, [done]);
  const start = (): void =>
    void jobs.run(JOB, 'POST /api/bench', { part, quick }).then((job) => {
      const created = job?.result?.file;
      if (created) router.set({ file: [created] }, '');
    });
  if (failure && !files) return <Failure text={failure} />;
  if (!files) return <BusyMessage text="Reading the reports…" />;
  const file = router.one('file') || files[0]?.file || '';
  return (
    <>
      <div class="bar">
        {files.length > 0 && (
          <label class="field">
            <span>Report</span>
            <select value={file} onChange={(event) => router.set({ file: [event.currentTarget.value] }, '')}>
              {files.map((entry) => (
                <option key={entry.file} value={entry.file} selected={entry.file === file}>
                  {plainText(`${entry.file} (${[...entry.sections, formatAge(entry.time)].join(', ')})`)}
                </option>
              ))}
            </select>
          </label>
        )}
        <label>
          <span>Measure</span>{' '}
          <select value={part} onChange={(event) => setPart(event.currentTarget.value as BenchRequest['part'])}>
            {PARTS.map((name) => (
              <option key={name} value={name} selected={name === part}>
                {name}
              </option>
            ))}
          </select>
        </label>
        <label>
          <span>Sizes</span>{' '}
          <select
            value={quick ? 'quick' : 'full'}
            onChange={(event) => setQuick(event.currentTarget.value === 'quick')}
          >
            <option value="quick">small: seconds</option>
            <option value="full">full: minutes</option>
          </select>
        </label>
        <JobButton
          name={JOB}
          label={quick ? 'Measure quickly' : 'Measure in full'}
          start={start}
          quiet={files.length > 0}
        />
      </div>
      {file ? <ReportView key={`${file} ${done}`} {...{ file, router }} /> : <NoReport />}
    </>
  );
}

function NoReport() {
  return (
    <EmptyPage title="Nothing was measured yet">
      <p>
        The bench measures the error of each mechanism against exact attention, and its cost. The
        button above runs a quick measurement; all of it takes five minutes:
      </p>
      <Command words="attnlab bench all --json" path="bench.json" />
    </EmptyPage>
  );
}

function ReportView({ file, router }: { file: string; router: Router }) {
  const [report, setReport] = useState<Report | null>(null);
  const [failure, setFailure] = useState('');
  useEffect(() => {
    const controller = new AbortController();
    request('GET /api/bench', { query: { file }, signal: controller.signal })
      .then((raw) => setReport(checkReport(raw)))
      .catch((error: unknown) => {
        if (!controller.signal.aborted) setFailure(errorMessage(error));
      });
    return () => controller.abort();
  }, [file]);
  if (failure) return <Failure text={failure} />;
  if (!report) return <BusyMessage text="Reading the report…" />;
  return (
    <ErrorBoundary what={report}>
      <ShadowRootHost
        css={CSS}
        address={innerAddress(router.route.page)}
        show={(root) => <App report={report} root={root} />}
      />
    </ErrorBoundary>
  );
}
