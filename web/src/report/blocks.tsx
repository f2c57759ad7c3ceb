// The blocks of a section: tables, figures, pictures, quotes, tokens, commands, links.

import type { ComponentChildren } from 'preact';
import { useMemo, useRef, useState } from 'preact/hooks';
import { CellTable } from './cells';
import { changed, shownOf, type Choices } from './choices';
import { Figure } from './figure';
import { short } from './numbers';
import { Named, Prose } from './page';
import { readNumber, readPlot } from './plot';
import { plain } from './prose';
import type * as Types from './report-types';

export type Block = Types.Section['blocks'][number];

interface Props {
  block: Block;
  id: string; // "section.block"
  choices: Choices;
  setChoices: (choices: Choices) => void;
}

export function BlockView({ block, ...rest }: Props) {
  switch (block.kind) {
    case 'table':
      return (
        <Noted note={block.note}>
          <CellTable table={block} />
        </Noted>
      );
    case 'figure':
      return <Plotted block={block} {...rest} />;
    case 'gallery':
      return <Gallery block={block} />;
    case 'quote':
      return <Quote block={block} />;
    case 'strip':
      return <Strip block={block} />;
    case 'command':
      return <Command block={block} />;
    case 'link':
      return <Link block={block} />;
    default:
      return <p class="message warn">A block of a kind that this page does not know.</p>;
  }
}

function Noted({ note, children }: { note: string; children: ComponentChildren }) {
  return (
    <>
      {children}
      {note && (
        <p class="dim small note">
          <Prose text={note} />
        </p>
      )}
    </>
  );
}

type PlottedProps = Omit<Props, 'block'> & { block: Types.Figure };

function Plotted({ block, id, choices, setChoices }: PlottedProps) {
  const plot = useMemo(() => readPlot(block.plot), [block]);
  if (!plot) return <p class="message warn">{plain(block.title)}: this page cannot draw it.</p>;
  return (
    <Noted note={block.note}>
      <Figure
        {...{ plot, title: block.title }}
        shown={shownOf(choices, id, plot)}
        change={(shown) => setChoices(changed(choices, id, plot, shown))}
      />
    </Noted>
  );
}

function Gallery({ block }: { block: Types.Gallery }) {
  // pydantic writes the alphabet for addresses
  const source = (png: string): string =>
    `data:image/png;base64,${png.replaceAll('-', '+').replaceAll('_', '/')}`;
  return (
    <Noted note={block.note}>
      <Named name={plain(block.title)}>
        <ul class="pictures">
          {block.pictures.map(({ png, text, note }, i) => (
            <li key={i}>
              <img src={source(png)} alt="" />
              <strong>
                <Prose text={text} />
              </strong>
              {note && (
                <span class="dim">
                  <Prose text={note} />
                </span>
              )}
            </li>
          ))}
        </ul>
      </Named>
    </Noted>
  );
}

// With every place of the marked words.
function Quote({ block: { title, text, marked } }: { block: Types.Quote }) {
  const pieces = marked ? text.split(marked) : [text];
  return (
    <Named name={plain(title)}>
      <blockquote>
        <bdi>
          {pieces.map((piece, i) => (
            <>
              {i > 0 && <mark>{plain(marked)}</mark>}
              {plain(piece)}
            </>
          ))}
        </bdi>
      </blockquote>
    </Named>
  );
}

function Strip({ block: { title, tokens, weights, note } }: { block: Types.Strip }) {
  const values = weights.map(readNumber);
  const most = values.reduce((least, value) => Math.max(least, Math.abs(value) || 0), 0) || 1;
  return (
    <Noted note={note}>
      <Named name={plain(title)}>
        <p class="strip">
          {tokens.map((token, i) => (
            <mark
              key={i}
              title={short(values[i])}
              style={{ '--shade': (Math.abs(values[i] || 0) / most).toFixed(3) }}
            >
              {plain(token)}
            </mark>
          ))}
        </p>
      </Named>
    </Noted>
  );
}

// Without a clipboard the command is selected instead.
function Command({ block: { command, why } }: { block: Types.Command }) {
  const code = useRef<HTMLElement>(null);
  const [done, setDone] = useState('Copy');
  const copy = async (): Promise<void> => {
    try {
      await navigator.clipboard.writeText(command);
      setDone('Copied');
    } catch {
      if (code.current) getSelection()?.selectAllChildren(code.current);
      setDone('Selected');
    }
    setTimeout(() => setDone('Copy'), 2000);
  };
  return (
    <div>
      {why && (
        <p>
          <Prose text={why} />
        </p>
      )}
      <p class="command">
        <code ref={code}>{plain(command)}</code>
        <button type="button" class="plainly" onClick={() => void copy()}>
          {done}
        </button>
      </p>
    </div>
  );
}

// Only a file beside the page: no address of another kind has this shape.
function Link({ block: { href, text } }: { block: Types.Link }) {
  if (!/^[\w./ -]+$/.test(href) || href.startsWith('//')) return <p>{plain(text)}</p>;
  return (
    <p>
      <a href={href}>
        <Prose text={text} />
      </a>
    </p>
  );
}
