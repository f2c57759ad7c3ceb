// Above the curves: what the chosen runs are, and where to go with them.

import { colourOf } from '../report/paint';
import { plain } from '../report/prose';
import { ago, count, metric } from './format';
import { Failure } from './parts';
import { linkTo, type Page } from './routes';
import { lastOf, type Ability, type Run } from './reading';
import { Progress, RunName, StateName } from './run-list';

const WAYS: [Ability, Page, string][] = [
  ['ask', 'ask', 'Ask it'],
  ['write', 'write', 'Let it write'],
  ['generate', 'write', 'Let it write'],
  ['see', 'see', 'Show it an image'],
  ['look', 'look', 'Look inside'],
];

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
      <p class="ways">
        {WAYS.filter(([can]) => run.can.includes(can)).map(([can, page, name]) => (
          <a key={can} class="button" href={linkTo(page, wanted(page, run))}>
            {name}
          </a>
        ))}
      </p>
    </div>
  );
}

function wanted(page: Page, run: Run): Record<string, string[]> {
  return page === 'look' ? { subject: [`run:${run.id}`] } : { run: [run.id] };
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
                  <i class="swatch" style={{ background: colourOf(i) }} aria-hidden="true" />
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
