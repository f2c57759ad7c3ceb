// The header of the selected runs: their facts, and links to pages that use them.

import { useContext } from 'preact/hooks';
import { seriesColor } from '../report/plot-colors';
import { plainText } from '../report/text-format';
import { formatAge, formatCount, formatMetric } from './format';
import { Failure } from './components';
import { PagesContext } from './page-declaration';
import { linkTo } from './route-format';
import { lastValue, type Run } from './api-helpers';
import { RunProgress, RunName, RunStateLabel } from './run-list';

export function RunHeader({ selected }: { selected: Run[] }) {
  return selected.length === 1 ? <OneRun run={selected[0]} /> : <SeveralRuns selected={selected} />;
}

function OneRun({ run }: { run: Run }) {
  return (
    <div class="run-head">
      <h2>
        <RunName run={run} />
      </h2>
      {run.state === 'gone' && <Failure text="This run no longer exists: it was deleted or renamed." />}
      {run.problem && <Failure text={`This folder cannot be read as a run: ${run.problem}`} />}
      <p class="dim">
        {plainText(
          [
            run.task,
            run.attention,
            run.parameters !== null && `${formatCount(run.parameters)} parameters`,
            run.updated !== null && `changed ${formatAge(run.updated)}`,
          ]
            .filter(Boolean)
            .join(' · '),
        )}
      </p>
      <RunProgress run={run} />
      <PageLinks run={run} />
    </div>
  );
}

// Links to the pages that can use the run.
function PageLinks({ run }: { run: Run }) {
  return (
    <p class="ways">
      {useContext(PagesContext).flatMap(({ name, links = {}, addressFields }) =>
        Object.entries(links)
          .filter(([can]) => run.can.includes(can))
          .map(([can, label]) => (
            <a key={can} class="button" href={linkTo(name, addressFields?.(run) ?? { run: [run.id] })}>
              {label}
            </a>
          )),
      )}
    </p>
  );
}

function SeveralRuns({ selected }: { selected: Run[] }) {
  const all = new Set(selected.flatMap((run) => Object.keys(run.last)));
  const measures = [...all].filter((name) => /^(loss$|validation )/.test(name)).slice(0, 6);
  return (
    <div class="run-head">
      <h2>{selected.length} runs</h2>
      <div class="scroll tall" tabIndex={0} role="region" aria-label="Selected runs">
        <table>
          <thead>
            <tr>
              <th scope="col">run</th>
              <th scope="col">state</th>
              <th scope="col" class="number">
                step
              </th>
              <th scope="col" class="number">
                parameters
              </th>
              {measures.map((name) => (
                <th key={name} scope="col" class="number">
                  {plainText(name)}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {selected.map((run, i) => (
              <tr key={run.id}>
                <th scope="row">
                  <i class="swatch" style={{ background: seriesColor(i) }} aria-hidden="true" />
                  <RunName run={run} />
                </th>
                <td>
                  <RunStateLabel run={run} />
                </td>
                <td class="number">{formatCount(run.step)}</td>
                <td class="number">{formatCount(run.parameters)}</td>
                {measures.map((name) => (
                  <td key={name} class="number">
                    {formatMetric(lastValue(run, name))}
                  </td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </div>
  );
}
