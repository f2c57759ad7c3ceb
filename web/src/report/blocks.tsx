// Renders the blocks of a section: tables, figures, pictures, quotes, tokens, commands, links.

import type { ComponentChildren } from 'preact';
import { useMemo, useRef, useState } from 'preact/hooks';
import { SortableTable } from './sortable-table';
import { changeFigure, figureOptions, type Choices } from './page-choices';
import { Figure } from './figure';
import { formatShort } from './number-format';
import { NamedBlock, FormattedText } from './page-frame';
import { readNumber, readPlot } from './plot-data';
import { plainText } from './text-format';
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
        <WithNote note={block.note}>
          <SortableTable table={block} />
        </WithNote>
      );
    case 'figure':
      return <FigureBlock block={block} {...rest} />;
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
      return <p class="message warn">This page cannot show a block of this kind.</p>;
  }
}

function WithNote({ note, children }: { note: string; children: ComponentChildren }) {
  return (
    <>
      {children}
      {note && (
        <p class="dim small note">
          <FormattedText text={note} />
        </p>
      )}
    </>
  );
}

type FigureBlockProps = Omit<Props, 'block'> & { block: Types.Figure };

function FigureBlock({ block, id, choices, setChoices }: FigureBlockProps) {
  const plot = useMemo(() => readPlot(block.plot), [block]);
  if (!plot) return <p class="message warn">{plainText(block.title)}: this page cannot draw the figure.</p>;
  return (
    <WithNote note={block.note}>
      <Figure
        {...{ plot, title: block.title }}
        options={figureOptions(choices, id, plot)}
        change={(options) => setChoices(changeFigure(choices, id, plot, options))}
      />
    </WithNote>
  );
}

function Gallery({ block }: { block: Types.Gallery }) {
  // pydantic writes URL-safe base64
  const source = (png: string): string =>
    `data:image/png;base64,${png.replaceAll('-', '+').replaceAll('_', '/')}`;
  return (
    <WithNote note={block.note}>
      <NamedBlock name={plainText(block.title)}>
        <ul class="pictures">
          {block.pictures.map(({ png, text, note }, i) => (
            <li key={i}>
              <img src={source(png)} alt="" />
              <strong>
                <FormattedText text={text} />
              </strong>
              {note && (
                <span class="dim">
                  <FormattedText text={note} />
                </span>
              )}
            </li>
          ))}
        </ul>
      </NamedBlock>
    </WithNote>
  );
}

// Marks every occurrence of `marked`.
function Quote({ block: { title, text, marked } }: { block: Types.Quote }) {
  const pieces = marked ? text.split(marked) : [text];
  return (
    <NamedBlock name={plainText(title)}>
      <blockquote>
        <bdi>
          {pieces.map((piece, i) => (
            <>
              {i > 0 && <mark>{plainText(marked)}</mark>}
              {plainText(piece)}
            </>
          ))}
        </bdi>
      </blockquote>
    </NamedBlock>
  );
}

function Strip({ block: { title, tokens, weights, note } }: { block: Types.Strip }) {
  const values = weights.map(readNumber);
  const largest = values.reduce((maximum, value) => Math.max(maximum, Math.abs(value) || 0), 0) || 1;
  return (
    <WithNote note={note}>
      <NamedBlock name={plainText(title)}>
        <p class="strip">
          {tokens.map((token, i) => (
            <mark
              key={i}
              title={formatShort(values[i])}
              style={{ '--shade': (Math.abs(values[i] || 0) / largest).toFixed(3) }}
            >
              {plainText(token)}
            </mark>
          ))}
        </p>
      </NamedBlock>
    </WithNote>
  );
}

// Without access to the clipboard, the command is selected instead.
function Command({ block: { command, why } }: { block: Types.Command }) {
  const code = useRef<HTMLElement>(null);
  const [label, setLabel] = useState('Copy');
  const copy = async (): Promise<void> => {
    try {
      await navigator.clipboard.writeText(command);
      setLabel('Copied');
    } catch {
      if (code.current) getSelection()?.selectAllChildren(code.current);
      setLabel('Selected');
    }
    setTimeout(() => setLabel('Copy'), 2000);
  };
  return (
    <div>
      {why && (
        <p>
          <FormattedText text={why} />
        </p>
      )}
      <p class="command">
        <code ref={code}>{plainText(command)}</code>
        <button type="button" class="plainly" onClick={() => void copy()}>
          {label}
        </button>
      </p>
    </div>
  );
}

// Links only to files beside the page, never to other addresses.
function Link({ block: { href, text } }: { block: Types.Link }) {
  if (!/^[\w./ -]+$/.test(href) || href.startsWith('//')) return <p>{plainText(text)}</p>;
  return (
    <p>
      <a href={href}>
        <FormattedText text={text} />
      </a>
    </p>
  );
}
