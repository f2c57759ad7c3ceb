// The input text, with marks on the sources of the selected word.

import { useEffect, useMemo, useRef } from 'preact/hooks';
import { plainText } from '../report/text-format';
import { shadeText } from './word-sources';
import type { GeneratedWord } from './api-types';

export interface SelectedWord {
  generation: number;
  word: number;
  sources: GeneratedWord['sources'];
}

interface Props {
  text: string;
  cutAt: number | null;
  selected: SelectedWord | null;
  edit: () => void;
}

export function SourceText({ text, cutAt, selected, edit }: Props) {
  const box = useRef<HTMLDivElement>(null);
  const read = cutAt === null ? text : text.slice(0, cutAt);
  const pieces = useMemo(() => shadeText(read, selected?.sources ?? []), [read, selected]);
  useEffect(() => {
    const area = box.current;
    const strongest = area?.querySelector<HTMLElement>('mark[data-strongest]');
    if (!area || !strongest) return;
    const top = strongest.offsetTop - area.offsetTop;
    if (top < area.scrollTop || top > area.scrollTop + area.clientHeight - 30)
      area.scrollTop = Math.max(0, top - area.clientHeight / 3); // scroll the text, not the page
  }, [pieces]);
  const strongest = pieces.findIndex((piece) => piece.shade === 1);
  return (
    <section aria-label="The text">
      <div class="row">
        <h2>The text</h2>
        <button type="button" class="plainly last" onClick={edit}>
          Edit
        </button>
      </div>
      <div class="source" ref={box} tabIndex={0} role="region" aria-label="The text that the model read">
        {pieces.map((piece, i) => {
          const content = visibleText(piece.text);
          if (!piece.shade) return <span key={i}>{content}</span>;
          return (
            <mark
              key={i}
              data-strongest={i === strongest || undefined}
              style={{ '--shade': piece.shade.toFixed(3) }}
            >
              {content}
            </mark>
          );
        })}
        {read.length < text.length && <del title="Not read">{visibleText(text.slice(read.length))}</del>}
      </div>
    </section>
  );
}

// Shows hidden characters and keeps line breaks.
function visibleText(text: string): string {
  return text.split('\n').map(plainText).join('\n');
}
