// A button that begins some work, and how far it has come.

import { plain } from '../report/prose';
import { useClient } from './client';
import { Failure } from './parts';

interface Props {
  name: string;
  what: string; // on the button
  begin: () => void;
  disabled?: boolean;
  quiet?: boolean; // not the main thing of the page
}

export function JobBar({ name, what, begin, disabled, quiet }: Props) {
  const { jobs } = useClient();
  const followed = jobs.of(name);
  const busy = jobs.busy(name);
  const job = followed?.job;
  return (
    <div class="job">
      {!busy && (
        <button type="button" class={quiet ? '' : 'main'} disabled={disabled} onClick={begin}>
          {what}
        </button>
      )}
      {busy && (
        <>
          <progress max={1} value={job?.of ? job.done / job.of : undefined} aria-label={what} />
          <span role="status" class="small">
            {job?.of ? `${job.done} of ${job.of}` : 'under way'}
            {job?.message && `: ${plain(job.message)}`}
          </span>
          <button type="button" class="plainly" onClick={() => void jobs.cancel(name)}>
            Cancel
          </button>
        </>
      )}
      {!busy && job?.state === 'cancelled' && <span class="dim small">Cancelled.</span>}
      <Failure text={followed?.failure ?? ''} />
    </div>
  );
}
