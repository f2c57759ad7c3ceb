// What lies in the folders of the chosen runs.

import { useEffect, useState } from 'preact/hooks';
import { plain } from '../report/prose';
import { ask, told } from './api';
import type { RunResponse } from './api-types';
import { ago, bytes, count } from './format';
import { Busy, Failure } from './parts';
import type { Run } from './reading';
import { RunName } from './run-list';

export function FileLists({ chosen }: { chosen: Run[] }) {
  return (
    <div class="file-lists">
      {chosen.map((run) => (
        <Files key={run.id} run={run} several={chosen.length > 1} />
      ))}
    </div>
  );
}

const OFTEN = 10; // seconds between two readings while it trains

// A folder is read anew when this changes.
export function whenRead({ state, updated }: Run): string {
  return `${state} ${state === 'training' ? Math.floor((updated ?? 0) / OFTEN) : updated}`;
}

function Files({ run, several }: { run: Run; several: boolean }) {
  const [detail, setDetail] = useState<RunResponse | null>(null);
  const [failure, setFailure] = useState('');
  useEffect(() => {
    const controller = new AbortController();
    ask('GET /api/run', { query: { run: run.id }, signal: controller.signal }).then(
      (found) => {
        setFailure('');
        setDetail(found);
      },
      (error: unknown) => {
        if (!controller.signal.aborted) setFailure(told(error));
      },
    );
    return () => controller.abort();
  }, [run.id, whenRead(run)]);
  if (failure) return <Failure text={failure} />;
  if (!detail) return <Busy text="Reading the folder…" />;
  return (
    <section aria-label={plain(run.name)}>
      {several && (
        <h3>
          <RunName run={run} />
        </h3>
      )}
      <Rows
        title="Checkpoints"
        none="There is no checkpoint."
        header={['checkpoint', 'step', 'size', 'saved']}
        rows={detail.checkpoints.map((each) => [
          each.name,
          count(each.step),
          bytes(each.bytes),
          ago(each.time),
        ])}
      />
      <Rows
        title="Files"
        none="The folder is empty."
        header={['file', 'size']}
        rows={detail.files.map((each) => [each.name, bytes(each.bytes)])}
      />
    </section>
  );
}

interface RowsProps {
  title: string;
  none: string;
  header: string[];
  rows: string[][];
}

function Rows({ title, none, header, rows }: RowsProps) {
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
                  <bdi>{plain(value)}</bdi>
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
