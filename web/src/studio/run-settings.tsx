// Settings: all of one run, or what differs between several.

import { useEffect, useState } from 'preact/hooks';
import { plain } from '../report/prose';
import { ask, told } from './api';
import type { DiffResponse } from './api-types';
import { grouped, type Group } from './diff';
import { Busy, Failure } from './parts';
import { whenRead } from './run-files';
import type { Run } from './reading';
import { RunName } from './run-list';

export function Settings({ chosen }: { chosen: Run[] }) {
  const [found, setFound] = useState<DiffResponse | null>(null);
  const [failure, setFailure] = useState('');
  const readable = chosen.filter(({ state }) => state !== 'broken' && state !== 'gone');
  const left = chosen.filter((run) => !readable.includes(run)).map(({ id }) => id);
  const ids = readable.map((run) => run.id).join('\n');
  useEffect(() => setFound(null), [ids]);
  useEffect(() => {
    if (!ids) return undefined;
    const controller = new AbortController();
    setFailure('');
    read(ids.split('\n'), controller.signal).then(setFound, (error: unknown) => {
      if (!controller.signal.aborted) setFailure(told(error));
    });
    return () => controller.abort();
  }, [ids, readable.map(whenRead).join()]);
  const unread = left.length > 0 && <Failure text={`${left.join(', ')}: without settings that can be read.`} />;
  if (!ids) return <>{unread}</>;
  if (failure) return <Failure text={failure} />;
  if (!found) return <Busy text="Reading the settings…" />;
  const several = readable.length > 1;
  return (
    <>
      {unread}
      {several && (
        <p class="lead">
          {found.rows.length
            ? `${found.rows.length} ${found.rows.length === 1 ? 'setting differs' : 'settings differ'}, ${found.same} are the same.`
            : `All ${found.same} settings are the same.`}{' '}
          {found.rows.length > 0 && 'What differs from the first run is marked.'}
        </p>
      )}
      {found.rows.length > 0 && <DiffTable chosen={readable} groups={grouped(found.rows)} />}
    </>
  );
}

async function read(ids: string[], signal: AbortSignal): Promise<DiffResponse> {
  if (ids.length > 1) return ask('GET /api/diff', { query: { run: ids }, signal });
  const { settings } = await ask('GET /api/run', { query: { run: ids[0] }, signal });
  const rows = Object.entries(settings).map(([setting, value]) => ({ setting, values: [value] }));
  return { rows, same: 0 };
}

function DiffTable({ chosen, groups }: { chosen: Run[]; groups: Group[] }) {
  return (
    <div class="scroll tall" tabIndex={0} role="region" aria-label="Settings">
      <table class="diff">
        <thead>
          <tr>
            <th scope="col">setting</th>
            {chosen.map((run) => (
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
                <th scope="rowgroup" colSpan={chosen.length + 1} class="group-name">
                  {plain(group.name)}
                </th>
              </tr>
            )}
            {group.rows.map((row) => (
              <tr key={row.name}>
                <th scope="row">{plain(row.name)}</th>
                {row.values.map((value, i) => (
                  <td key={i} class={row.other[i] ? 'other' : ''}>
                    <bdi>{plain(value)}</bdi>
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
