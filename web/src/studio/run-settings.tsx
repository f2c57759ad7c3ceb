// All settings of one run, or the settings in which several runs differ.

import { useEffect, useState } from 'preact/hooks';
import { plainText } from '../report/text-format';
import { request, errorMessage } from './api';
import type { DiffResponse } from './api-types';
import { groupSettings, type SettingsGroup } from './settings-diff';
import { BusyMessage, Failure } from './components';
import { reloadKey } from './run-files';
import type { Run } from './api-helpers';
import { RunName } from './run-list';

export function Settings({ selected }: { selected: Run[] }) {
  const [diff, setDiff] = useState<DiffResponse | null>(null);
  const [failure, setFailure] = useState('');
  const readable = selected.filter(({ state }) => state !== 'broken' && state !== 'gone');
  const unreadable = selected.filter((run) => !readable.includes(run)).map(({ id }) => id);
  const ids = readable.map((run) => run.id).join('\n');
  useEffect(() => setDiff(null), [ids]);
  useEffect(() => {
    if (!ids) return undefined;
    const controller = new AbortController();
    setFailure('');
    readSettings(ids.split('\n'), controller.signal).then(setDiff, (error: unknown) => {
      if (!controller.signal.aborted) setFailure(errorMessage(error));
    });
    return () => controller.abort();
  }, [ids, readable.map(reloadKey).join()]);
  const warning = unreadable.length > 0 && (
    <Failure text={`${unreadable.join(', ')}: the settings cannot be read.`} />
  );
  if (!ids) return <>{warning}</>;
  if (failure) return <Failure text={failure} />;
  if (!diff) return <BusyMessage text="Reading the settings…" />;
  const several = readable.length > 1;
  return (
    <>
      {warning}
      {several && (
        <p class="lead">
          {diff.rows.length
            ? `${diff.rows.length} ${diff.rows.length === 1 ? 'setting differs' : 'settings differ'}, ${diff.same} are the same.`
            : `All ${diff.same} settings are the same.`}{' '}
          {diff.rows.length > 0 && 'Values that differ from the first run are marked.'}
        </p>
      )}
      {diff.rows.length > 0 && <DiffTable selected={readable} groups={groupSettings(diff.rows)} />}
    </>
  );
}

async function readSettings(ids: string[], signal: AbortSignal): Promise<DiffResponse> {
  if (ids.length > 1) return request('GET /api/diff', { query: { run: ids }, signal });
  const { settings } = await request('GET /api/run', { query: { run: ids[0] }, signal });
  const rows = Object.entries(settings).map(([setting, value]) => ({ setting, values: [value] }));
  return { rows, same: 0 };
}

function DiffTable({ selected, groups }: { selected: Run[]; groups: SettingsGroup[] }) {
  return (
    <div class="scroll tall" tabIndex={0} role="region" aria-label="Settings">
      <table class="diff">
        <thead>
          <tr>
            <th scope="col">setting</th>
            {selected.map((run) => (
              <th key={run.id} scope="col">
                <RunName run={run} />
              </th>
            ))}
          </tr>
        </thead>
        {groups.map((group) => (
          <tbody key={group.name}>
            {group.name && (
              <tr>
                <th scope="rowgroup" colSpan={selected.length + 1} class="group-name">
                  {plainText(group.name)}
                </th>
              </tr>
            )}
            {group.rows.map((row) => (
              <tr key={row.name}>
                <th scope="row">{plainText(row.name)}</th>
                {row.values.map((value, i) => (
                  <td key={i} class={row.differs[i] ? 'other' : ''}>
                    <bdi>{plainText(value)}</bdi>
                  </td>
                ))}
              </tr>
            ))}
          </tbody>
        ))}
      </table>
    </div>
  );
}
