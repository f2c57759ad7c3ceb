// The page of a report: one section at a time, with findings, figures and tables.

import { useContext, useEffect, useState } from 'preact/hooks';
import { PageContext, useAddressState } from '../shared/page-address';
import { ErrorBoundary } from '../shared/error-boundary';
import { Tabs } from '../shared/tabs';
import { BlockView, type Block } from './blocks';
import { parseChoices, printChoices, type Choices } from './page-choices';
import { formatShort } from './number-format';
import { PageHeading, FormattedText } from './page-frame';
import { isRecord, readNumber } from './plot-data';
import { plainText } from './text-format';
import type { Report, Section } from './report-types';
import { cellText } from './table-cells';

const LEAD_SENTENCES = 3; // before a reader asks for more
const FEW_BLOCKS = 2; // if no section has more, all sections are shown without tabs

// Checks format and version; Python has checked the rest.
export function checkReport(raw: unknown): Report {
  if (!isRecord(raw) || raw.format !== 'attnlab-report')
    throw new Error('The data of this page is not a report.');
  if (raw.version !== 1)
    throw new Error(`The report has version ${String(raw.version)}; this page reads version 1.`);
  return raw as unknown as Report;
}

export function App({ report, root }: { report: Report; root: HTMLElement }) {
  const { address, alone } = useContext(PageContext);
  const [choices, setChoices] = useState(() => parseChoices(address.read() ?? '', report));
  useAddressState(printChoices(choices, report), (text) => setChoices(parseChoices(text, report)));
  useEffect(() => {
    root.dataset.painted = 'report';
  }, []);
  const together = report.sections.every(({ blocks }) => blocks.length <= FEW_BLOCKS);
  const visible = report.sections.filter(({ name }) => together || name === choices.section);
  const Main = alone ? 'main' : 'div'; // a window has only one <main>
  const facts = [...textPairs(report.versions), ...textPairs(report.machine)];
  const lines = report.sections
    .flatMap(({ blocks }) => blocks)
    .filter((block) => block.kind === 'figure' && isRecord(block.plot) && block.plot.kind === 'lines');
  return (
    <div class="sheet">
      <PageHeading root={root} title={plainText(report.title)} />
      {!together && report.sections.length > 1 && (
        <Tabs
          label="Sections"
          tabs={report.sections.map(({ name }) => ({ name, title: plainText(name.replaceAll('-', ' ')) }))}
          selected={choices.section}
          select={(name) => setChoices({ ...choices, section: name })}
        />
      )}
      <Main>
        {visible.map((section) => (
          <SectionView
            key={section.name}
            {...{ section, choices, setChoices }}
            showTitle={section.title !== report.title}
          />
        ))}
        {!visible.length && <p class="none">Nothing was measured.</p>}
      </Main>
      <footer class="dim small">
        {facts.map(([name, value]) => `${name} ${value}`).join(', ')}
        {facts.length > 0 && '. '}
        {readNumber(report.seconds) > 0 && `Took ${formatShort(readNumber(report.seconds))} s. `}
        Intervals are 95%.{' '}
        {lines.length > 1 && 'Hiding a line in one figure hides it in all figures.'}
      </footer>
    </div>
  );
}

// Names and values as texts, without missing values.
function textPairs(record: Section['settings']): [string, string][] {
  return Object.entries(record)
    .filter(([, value]) => value !== null)
    .map(([name, value]) => [
      plainText(name.replaceAll('_', ' ')),
      plainText(Array.isArray(value) ? value.map(cellText).join(', ') : typeof value === 'string' ? value : cellText(value)),
    ]);
}

interface SectionProps {
  section: Section;
  showTitle: boolean;
  choices: Choices;
  setChoices: (choices: Choices) => void;
}

const WIDE_BLOCKS: Block['kind'][] = ['table', 'gallery'];

export function SectionView({ section, showTitle, choices, setChoices }: SectionProps) {
  const { first, lead, rest } = splitSection(section);
  const settings = textPairs(section.settings);
  const block = (i: number) => (
    <div key={i} class={WIDE_BLOCKS.includes(section.blocks[i].kind) ? 'part wide' : 'part'}>
      <ErrorBoundary what={section.blocks[i]}>
        <BlockView
          {...{ choices, setChoices }}
          block={section.blocks[i]}
          id={`${section.name}.${i}`}
        />
      </ErrorBoundary>
    </div>
  );
  return (
    <section class="section">
      {showTitle && (
        <h2>
          <FormattedText text={section.title} />
        </h2>
      )}
      <Tiles tiles={section.tiles} />
      {first >= 0 && <div class="lead-figure">{block(first)}</div>}
      <div class="words">
        <TextList name="Findings" lines={lead.findings} />
        <TextList name="Advice" lines={lead.advice} />
        {rest.findings.length + rest.advice.length > 0 && (
          <details>
            <summary>More findings ({rest.findings.length + rest.advice.length})</summary>
            <TextList name="Findings" lines={rest.findings} />
            <TextList name="Advice" lines={rest.advice} />
          </details>
        )}
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
      <div class="parts">{section.blocks.map((_, i) => i !== first && block(i))}</div>
    </section>
  );
}

interface Sentences {
  findings: string[];
  advice: string[];
}

// A section with many sentences opens with its first figure and three of them; the rest is behind
// "More findings". Few sentences come first, as in a text.
export function splitSection({ findings, advice, blocks }: Section): {
  first: number; // index of the figure that leads, or -1
  lead: Sentences;
  rest: Sentences;
} {
  const first = blocks.findIndex(({ kind }) => kind === 'figure');
  if (first < 0 || findings.length + advice.length <= LEAD_SENTENCES)
    return { first: -1, lead: { findings, advice }, rest: { findings: [], advice: [] } };
  const findingCount = Math.min(findings.length, LEAD_SENTENCES - Math.min(1, advice.length));
  const adviceCount = LEAD_SENTENCES - findingCount;
  return {
    first,
    lead: { findings: findings.slice(0, findingCount), advice: advice.slice(0, adviceCount) },
    rest: { findings: findings.slice(findingCount), advice: advice.slice(adviceCount) },
  };
}

// The key numbers of a section.
export function Tiles({ tiles }: { tiles: Section['tiles'] }) {
  if (!tiles.length) return null;
  return (
    <dl class="tiles">
      {tiles.map(({ name, value, note }) => (
        <div key={name}>
          <dt>
            <FormattedText text={name} />
          </dt>
          <dd class="value number">
            <FormattedText text={value} />
          </dd>
          {note && (
            <dd class="dim small">
              <FormattedText text={note} />
            </dd>
          )}
        </div>
      ))}
    </dl>
  );
}

function TextList({ name, lines }: { name: string; lines: string[] }) {
  if (!lines.length) return null;
  return (
    <div>
      <h3>{name}</h3>
      <ul>
        {lines.map((line, i) => (
          <li key={i}>
            <FormattedText text={line} />
          </li>
        ))}
      </ul>
    </div>
  );
}
