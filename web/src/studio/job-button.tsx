// A button that starts a job, and its progress.

import { plainText } from '../report/text-format';
import { useWindowState } from './window-state';
import { Failure } from './components';

interface Props {
  name: string;
  label: string; // of the button
  start: () => void;
  disabled?: boolean;
  quiet?: boolean; // not the main button of the page
}

export function JobButton({ name, label, start, disabled, quiet }: Props) {
  const { jobs } = useWindowState();
  const followed = jobs.of(name);
  const busy = jobs.busy(name);
  const job = followed?.job;
  return (
    <div class="job">
      {!busy && (
        <button type="button" class={quiet ? '' : 'main'} disabled={disabled} onClick={start}>
          {label}
        </button>
      )}
      {busy && (
        <>
          <progress max={1} value={job?.total ? job.done / job.total : undefined} aria-label={label} />
          <span role="status" class="small">
            {job?.total ? `${job.done} of ${job.total}` : 'running'}
            {job?.message && `: ${plainText(job.message)}`}
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
