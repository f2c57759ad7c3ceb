// Above the curves: what the chosen runs are, and where to go with them.

import { useContext } from 'preact/hooks';
import { colorOf } from '../report/paint';
import { plain } from '../report/prose';
import { ago, count, metric } from './format';
import { Failure } from './parts';
import { Pages } from './page';
import { linkTo } from './routes';
import { lastOf, type Run } from './reading';
import { Progress, RunName, StateName } from './run-list';

export function RunHead({ chosen }: { chosen: Run[] }) {
  return chosen.length === 1 ? <One run={chosen[0]} /> : <Several chosen={chosen} />;
}

function One({ run }: { run: Run }) {
  return (
    <div class="run-head">
      <h2>
        <RunName run={run} />
      </h2>
      {run.state === 'gone' && <Failure text="There is no such run any more: it was deleted or renamed." />}
      {run.problem && <Failure text={`This folder cannot be read as a run: ${run.problem}`} />}
      <p class="dim">
        {plain(
          [
            run.task,
            run.attention,
            run.parameters !== null && `${count(run.parameters)} parameters`,
            run.updated !== null && `changed ${ago(run.updated)}`,
          ]
            .filter(Boolean)
            .join(' · '),
        )}
      </p>
      <Progress run={run} />
      <Invitations run={run} />
    </div>
  );
}

// The pages that can do something with it.
function Invitations({ run }: { run: Run }) {
  return (
    <p class="ways">
      {useContext(Pages).flatMap(({ name, invites = {}, opens }) =>
        Object.entries(invites)
          .filter(([can]) => run.can.includes(can))
          .map(([can, words]) => (
            <a key={can} class="button" href={linkTo(name, opens?.(run) ?? { run: [run.id] })}>
              {words}
            </a>
          )),
      )}
    </p>
  );
}

function Several({ chosen }: { chosen: Run[] }) {
  const all = new Set(chosen.flatMap((run) => Object.keys(run.last)));
  const measures = [...all].filter((name) => /^(loss$|validation )/.test(name)).slice(0, 6);
  return (
    <div class="run-head">
      <h2>{chosen.length} runs</h2>
      <div class="scroll tall" tabIndex={0} role="region" aria-label="The chosen runs">
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
                  {plain(name)}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {chosen.map((run, i) => (
              <tr key={run.id}>
                <th scope="row">
                  <i class="swatch" style={{ background: colorOf(i) }} aria-hidden="true" />
                  <RunName run={run} />
                </th>
                <td>
                  <StateName run={run} />
                </td>
                <td class="number">{count(run.step)}</td>
                <td class="number">{count(run.parameters)}</td>
                {measures.map((name) => (
                  <td key={name} class="number">
                    {metric(lastOf(run, name))}
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
