// The files and checkpoints of the selected runs.

import { useEffect, useState } from 'preact/hooks';
import { plainText } from '../report/text-format';
import { request, errorMessage } from './api';
import type { RunResponse } from './api-types';
import { formatAge, formatBytes, formatCount } from './format';
import { BusyMessage, Failure } from './components';
import type { Run } from './api-helpers';
import { RunName } from './run-list';

export function FileLists({ selected }: { selected: Run[] }) {
  return (
    <div class="file-lists">
      {selected.map((run) => (
        <RunFiles key={run.id} run={run} several={selected.length > 1} />
      ))}
    </div>
  );
}

const RELOAD_SECONDS = 10; // while the run trains

// A folder is read again when this changes.
export function reloadKey({ state, updated }: Run): string {
  return `${state} ${state === 'training' ? Math.floor((updated ?? 0) / RELOAD_SECONDS) : updated}`;
}

function RunFiles({ run, several }: { run: Run; several: boolean }) {
  const [details, setDetails] = useState<RunResponse | null>(null);
  const [failure, setFailure] = useState('');
  useEffect(() => {
    const controller = new AbortController();
    request('GET /api/run', { query: { run: run.id }, signal: controller.signal }).then(
      (details) => {
        setFailure('');
        setDetails(details);
      },
      (error: unknown) => {
        if (!controller.signal.aborted) setFailure(errorMessage(error));
      },
    );
    return () => controller.abort();
  }, [run.id, reloadKey(run)]);
  if (failure) return <Failure text={failure} />;
  if (!details) return <BusyMessage text="Reading the folder…" />;
  return (
    <section aria-label={plainText(run.name)}>
      {several && (
        <h3>
          <RunName run={run} />
        </h3>
      )}
      <FileTable
        title="Checkpoints"
        none="There is no checkpoint."
        header={['checkpoint', 'step', 'size', 'saved']}
        rows={details.checkpoints.map(({ name, step, bytes, time }) => [
          name,
          formatCount(step),
          formatBytes(bytes),
          formatAge(time),
        ])}
      />
      <FileTable
        title="Files"
        none="The folder is empty."
        header={['file', 'size']}
        rows={details.files.map(({ name, bytes }) => [name, formatBytes(bytes)])}
      />
    </section>
  );
}

interface FileTableProps {
  title: string;
  none: string;
  header: string[];
  rows: string[][];
}

function FileTable({ title, none, header, rows }: FileTableProps) {
  if (!rows.length) return <p class="dim">{none}</p>;
  return (
    <div class="scroll tall" tabIndex={0} role="region" aria-label={title}>
      <table>
        <thead>
          <tr>
            {header.map((name, i) => (
              <th key={name} scope="col" class={i ? 'number' : ''}>
                {name}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr key={row[0]}>
              {row.map((value, i) => (
                <td key={i} class={i ? 'number' : ''}>
                  <bdi>{plainText(value)}</bdi>
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
