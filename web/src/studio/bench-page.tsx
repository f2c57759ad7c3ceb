// Bench: the reports that were found, each with its figures, and new ones made here.

import { useEffect, useState } from 'preact/hooks';
import baseCss from '../report/base.css?inline';
import { App, checkReport } from '../report/app';
import { plain } from '../report/prose';
import reportCss from '../report/report.css?inline';
import type { Report } from '../report/report-types';
import { Guard } from '../shared/guard';
import { ask, told } from './api';
import type { BenchFile, BenchFilesResponse, BenchRequest } from './api-types';
import { useClient } from './client';
import { ago } from './format';
import { Isolated } from './isolated';
import { JobBar } from './job-bar';
import type { Page } from './page';
import { Busy, Command, Empty, Failure } from './parts';
import { innerAddress, type Router } from './router';

const JOB = 'bench';
const CSS = baseCss + reportCss;
const PARTS: BenchRequest['part'][] = ['error', 'speed', 'memory', 'decode'];

export const benchPage: Page = { name: 'bench', title: 'Bench', Shown: BenchPage };

function BenchPage({ router }: { router: Router }) {
  const { jobs } = useClient();
  const [files, setFiles] = useState<BenchFile[] | null>(null);
  const [failure, setFailure] = useState('');
  const done = jobs.ended(JOB);
  const [part, setPart] = useState<BenchRequest['part']>('error');
  const [quick, setQuick] = useState(true);
  useEffect(() => {
    const controller = new AbortController();
    ask('GET /api/bench', { signal: controller.signal }).then(
      (found) => {
        setFailure('');
        setFiles((found as BenchFilesResponse).files);
      },
      (error: unknown) => {
        if (!controller.signal.aborted) setFailure(told(error));
      },
    );
    return () => controller.abort();
  }, [done]);
  const begin = (): void =>
    void jobs.run(JOB, 'POST /api/bench', { part, quick }).then((job) => {
      const made = job?.result?.file;
      if (made) router.set({ file: [made] }, '');
    });
  if (failure && !files) return <Failure text={failure} />;
  if (!files) return <Busy text="Reading the reports…" />;
  const file = router.one('file') || files[0]?.file || '';
  return (
    <>
      <div class="bar">
        {files.length > 0 && (
          <label class="field">
            <span>Report</span>
            <select value={file} onChange={(event) => router.set({ file: [event.currentTarget.value] }, '')}>
              {files.map((each) => (
                <option key={each.file} value={each.file} selected={each.file === file}>
                  {plain(`${each.file} (${[...each.sections, ago(each.time)].join(', ')})`)}
                </option>
              ))}
            </select>
          </label>
        )}
        <label>
          <span>Measure</span>{' '}
          <select value={part} onChange={(event) => setPart(event.currentTarget.value as BenchRequest['part'])}>
            {PARTS.map((each) => (
              <option key={each} value={each} selected={each === part}>
                {each}
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
        <JobBar
          name={JOB}
          what={quick ? 'Measure quickly' : 'Measure in full'}
          begin={begin}
          quiet={files.length > 0}
        />
      </div>
      {file ? <OneReport key={`${file} ${done}`} {...{ file, router }} /> : <NoReport />}
    </>
  );
}

function NoReport() {
  return (
    <Empty title="Nothing was measured yet">
      <p>
        How far each mechanism is from exact attention, and what it costs. A quick try is a press on
        the button above; all of it takes five minutes:
      </p>
      <Command words="attnlab bench all --json" of="bench.json" />
    </Empty>
  );
}

function OneReport({ file, router }: { file: string; router: Router }) {
  const [report, setReport] = useState<Report | null>(null);
  const [failure, setFailure] = useState('');
  useEffect(() => {
    const controller = new AbortController();
    ask('GET /api/bench', { query: { file }, signal: controller.signal })
      .then((raw) => setReport(checkReport(raw)))
      .catch((error: unknown) => {
        if (!controller.signal.aborted) setFailure(told(error));
      });
    return () => controller.abort();
  }, [file]);
  if (failure) return <Failure text={failure} />;
  if (!report) return <Busy text="Reading the report…" />;
  return (
    <Guard what={report}>
      <Isolated
        css={CSS}
        address={innerAddress(router.route.page)}
        show={(root) => <App report={report} root={root} />}
      />
    </Guard>
  );
}
