// The page of a report: a section at a time, findings in words, then figures and tables.

import { useContext, useEffect, useState } from 'preact/hooks';
import { Home, useAddress } from '../shared/home';
import { Guard } from '../shared/guard';
import { Tabs } from '../shared/tabs';
import { BlockView, type Block } from './blocks';
import { parse, print, type Choices } from './choices';
import { short } from './numbers';
import { Heading, Prose } from './page';
import { isRecord, readNumber } from './plot';
import { plain } from './prose';
import type { Report, Section } from './report-types';
import { cellText } from './sorting';

const FEW = 2; // blocks: sections that have no more stand one below the other, without tabs

// Python checked and wrote it; a file of something else or of a later version says so.
export function checkReport(raw: unknown): Report {
  if (!isRecord(raw) || raw.format !== 'attnlab-report')
    throw new Error('The data of this page is no report.');
  if (raw.version !== 1)
    throw new Error(`The report has version ${String(raw.version)}; this page reads version 1.`);
  return raw as unknown as Report;
}

export function App({ report, root }: { report: Report; root: HTMLElement }) {
  const { address, alone } = useContext(Home);
  const [choices, setChoices] = useState(() => parse(address.read() ?? '', report));
  useAddress(print(choices, report), (text) => setChoices(parse(text, report)));
  useEffect(() => {
    root.dataset.painted = 'report';
  }, []);
  const together = report.sections.every(({ blocks }) => blocks.length <= FEW);
  const shown = report.sections.filter(({ name }) => together || name === choices.section);
  const Main = alone ? 'main' : 'div'; // a window has one
  const facts = [...pairs(report.versions), ...pairs(report.machine)];
  const lines = report.sections
    .flatMap(({ blocks }) => blocks)
    .filter((block) => block.kind === 'figure' && isRecord(block.plot) && block.plot.kind === 'lines');
  return (
    <div class="sheet">
      <Heading root={root} title={plain(report.title)} />
      {!together && report.sections.length > 1 && (
        <Tabs
          label="Sections"
          tabs={report.sections.map(({ name }) => ({ name, title: plain(name.replaceAll('-', ' ')) }))}
          chosen={choices.section}
          choose={(name) => setChoices({ ...choices, section: name })}
        />
      )}
      <Main>
        {shown.map((section) => (
          <SectionView
            key={section.name}
            {...{ section, choices, setChoices }}
            titled={section.title !== report.title}
          />
        ))}
        {!shown.length && <p class="none">Nothing was measured.</p>}
      </Main>
      <footer class="dim small">
        {facts.map(([name, value]) => `${name} ${value}`).join(', ')}
        {facts.length > 0 && '. '}
        {readNumber(report.seconds) > 0 && `Took ${short(readNumber(report.seconds))} s. `}
        Intervals are 95%.{' '}
        {lines.length > 1 && 'A line that is hidden in one figure is hidden in all.'}
      </footer>
    </div>
  );
}

// Names and values as texts; a missing value is left out.
function pairs(record: Section['settings']): [string, string][] {
  return Object.entries(record)
    .filter(([, value]) => value !== null)
    .map(([name, value]) => [
      plain(name.replaceAll('_', ' ')),
      plain(Array.isArray(value) ? value.map(cellText).join(', ') : typeof value === 'string' ? value : cellText(value)),
    ]);
}

interface SectionProps {
  section: Section;
  titled: boolean;
  choices: Choices;
  setChoices: (choices: Choices) => void;
}

const WIDE: Block['kind'][] = ['table', 'gallery'];

export function SectionView({ section, titled, choices, setChoices }: SectionProps) {
  const settings = pairs(section.settings);
  return (
    <section class="section">
      {titled && (
        <h2>
          <Prose text={section.title} />
        </h2>
      )}
      <Tiles tiles={section.tiles} />
      <div class="words">
        <Words name="What was found" lines={section.findings} />
        <Words name="What to do" lines={section.advice} />
        {settings.length > 0 && (
          <details>
            <summary>Settings</summary>
            <dl>
              {settings.map(([name, value]) => (
                <div key={name}>
                  <dt>{name}</dt>
                  <dd class="number">{value}</dd>
                </div>
              ))}
            </dl>
          </details>
        )}
      </div>
      <div class="parts">
        {section.blocks.map((block, i) => (
          <div key={i} class={WIDE.includes(block.kind) ? 'part wide' : 'part'}>
            <Guard what={block}>
              <BlockView {...{ block, choices, setChoices }} id={`${section.name}.${i}`} />
            </Guard>
          </div>
        ))}
      </div>
    </section>
  );
}

// Key numbers.
export function Tiles({ tiles }: { tiles: Section['tiles'] }) {
  if (!tiles.length) return null;
  return (
    <dl class="tiles">
      {tiles.map(({ name, value, note }) => (
        <div key={name}>
          <dt>
            <Prose text={name} />
          </dt>
          <dd class="value number">
            <Prose text={value} />
          </dd>
          {note && (
            <dd class="dim small">
              <Prose text={note} />
            </dd>
          )}
        </div>
      ))}
    </dl>
  );
}

function Words({ name, lines }: { name: string; lines: string[] }) {
  if (!lines.length) return null;
  return (
    <div>
      <h3>{name}</h3>
      <ul>
        {lines.map((line, i) => (
          <li key={i}>
            <Prose text={line} />
          </li>
        ))}
      </ul>
    </div>
  );
}
