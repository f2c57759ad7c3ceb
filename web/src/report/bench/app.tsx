// The page of a bench: a section at a time, what was found in words, then figures and tables.

import { useContext, useEffect, useState } from 'preact/hooks';
import { Home, useAddress } from '../../shared/home';
import { Guard } from '../../shared/guard';
import { Figure } from '../figure';
import { MapFigure } from '../heatmap';
import { short } from '../numbers';
import { Heading, Prose } from '../page';
import { plain } from '../prose';
import { AS_GIVEN } from '../shown';
import { changed, parse, print, shownOf, type Choices } from './choices';
import type { Drawn, Report, Section } from './report';
import { CellTable } from './table';

export function App({ report, root }: { report: Report; root: HTMLElement }) {
  const { address } = useContext(Home);
  const [choices, setChoices] = useState(() => parse(address.read() ?? '', report));
  useAddress(print(choices, report), (text) => setChoices(parse(text, report)));
  useEffect(() => {
    root.dataset.painted = 'bench';
  }, []);
  const section = report.sections.find((each) => each.name === choices.section);
  return (
    <div class="sheet">
      <header>
        <Heading root={root} title="Attention mechanisms, measured" />
        <p class="lead">
          How far each mechanism is from exact softmax attention, and what it costs on the machine
          below. Doing nothing (uniform weights) is the control that an approximation has to beat.
        </p>
      </header>
      <Tabs {...{ report, choices, root }} choose={(name) => setChoices({ ...choices, section: name })} />
      {section ? (
        <Shown key={section.name} {...{ section, choices, setChoices, root }} />
      ) : (
        <p class="none">Nothing was measured.</p>
      )}
      <footer class="dim small">
        {[...report.versions, ...report.machine]
          .map(([name, value]) => `${plain(name)} ${plain(value)}`)
          .join(', ')}
        . Took {short(report.seconds)} s. Intervals are 95%. A line that is hidden in one figure is
        hidden in all.
      </footer>
    </div>
  );
}

interface TabsProps {
  report: Report;
  choices: Choices;
  choose: (name: string) => void;
  root: HTMLElement;
}

function Tabs({ report, choices, choose, root }: TabsProps) {
  if (report.sections.length < 2) return null;
  const step = (event: KeyboardEvent): void => {
    const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    const at = report.sections.findIndex((each) => each.name === choices.section);
    const next = by && report.sections[at + by];
    if (!next) return;
    event.preventDefault();
    choose(next.name);
    root.querySelector<HTMLElement>(`#${CSS.escape(`tab-${next.name}`)}`)?.focus();
  };
  return (
    <div class="tabs" role="tablist" aria-label="What was measured" onKeyDown={step}>
      {report.sections.map(({ name }) => (
        <button
          key={name}
          type="button"
          role="tab"
          id={`tab-${name}`}
          aria-selected={name === choices.section}
          tabIndex={name === choices.section ? 0 : -1}
          onClick={() => choose(name)}
        >
          {plain(name)}
        </button>
      ))}
    </div>
  );
}

interface ShownProps {
  section: Section;
  choices: Choices;
  setChoices: (choices: Choices) => void;
  root: HTMLElement;
}

function Shown({ section, choices, setChoices, root }: ShownProps) {
  const Main = useContext(Home).alone ? 'main' : 'div'; // a window has one
  return (
    <Main class="section">
      <h2>
        <Prose text={section.title} />
      </h2>
      <div class="words">
        <Words name="What was found" lines={section.findings} />
        <Words name="What to use" lines={section.advice} />
        <details>
          <summary>Settings</summary>
          <dl>
            {section.settings.map(([name, value]) => (
              <div key={name}>
                <dt>{plain(name)}</dt>
                <dd class="number">{plain(value)}</dd>
              </div>
            ))}
          </dl>
        </details>
      </div>
      <div class="parts">
        {section.parts.map((part, i) => (
          <div key={i} class={part.kind === 'table' ? 'part wide' : 'part'}>
            <Guard what={part}>
              {part.kind === 'table' ? (
                <CellTable table={part} />
              ) : (
                <Picture {...{ part, choices, setChoices, root }} id={`${section.name}.${i}`} />
              )}
            </Guard>
            {part.note && (
              <p class="dim small note">
                <Prose text={part.note} />
              </p>
            )}
          </div>
        ))}
      </div>
    </Main>
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

interface PictureProps {
  part: Drawn;
  id: string;
  choices: Choices;
  setChoices: (choices: Choices) => void;
  root: HTMLElement;
}

function Picture({ part, id, choices, setChoices, root }: PictureProps) {
  const { plot, title } = part;
  const mode = useShownMode(root);
  if (!plot) return <p class="message warn">{plain(title)}: nothing that this page can draw.</p>;
  if (plot.kind === 'heatmap') {
    const own = choices.figures[id];
    const change = (table: boolean): void => {
      const figure = { ...(own ?? AS_GIVEN), table };
      setChoices({ ...choices, figures: { ...choices.figures, [id]: figure } });
    };
    return <MapFigure {...{ map: plot, title, mode, change }} table={own?.table ?? false} />;
  }
  return (
    <Figure
      {...{ plot, title }}
      shown={shownOf(choices, id, plot)}
      change={(shown) => setChoices(changed(choices, id, plot, shown))}
    />
  );
}

// A canvas does not follow the style sheet: it is painted again when the page turns dark.
function useShownMode(root: HTMLElement): 'light' | 'dark' {
  const read = (): 'light' | 'dark' => (root.dataset.theme === 'dark' ? 'dark' : 'light');
  const [mode, setMode] = useState(read);
  useEffect(() => {
    setMode(read());
    const observer = new MutationObserver(() => setMode(read()));
    observer.observe(root, { attributes: true, attributeFilter: ['data-theme'] });
    return () => observer.disconnect();
  }, []);
  return mode;
}
