// The text that was read, with the places marked that a written word came from.

import { useEffect, useMemo, useRef } from 'preact/hooks';
import { plain } from '../report/prose';
import { shaded } from './traces';
import type { Word } from './api-types';

export interface Pointed {
  summary: number;
  word: number;
  sources: Word['sources'];
}

interface Props {
  text: string;
  cutAt: number | null;
  pointed: Pointed | null;
  edit: () => void;
}

export function Source({ text, cutAt, pointed, edit }: Props) {
  const box = useRef<HTMLDivElement>(null);
  const read = cutAt === null ? text : text.slice(0, cutAt);
  const pieces = useMemo(() => shaded(read, pointed?.sources ?? []), [read, pointed]);
  useEffect(() => {
    const area = box.current;
    const strongest = area?.querySelector<HTMLElement>('mark[data-strongest]');
    if (!area || !strongest) return;
    const top = strongest.offsetTop - area.offsetTop;
    if (top < area.scrollTop || top > area.scrollTop + area.clientHeight - 30)
      area.scrollTop = Math.max(0, top - area.clientHeight / 3); // the text alone moves
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
      <div class="source" ref={box} tabIndex={0} role="region" aria-label="What was read">
        {pieces.map((piece, i) => {
          const shown = lines(piece.text);
          if (!piece.shade) return <span key={i}>{shown}</span>;
          return (
            <mark
              key={i}
              data-strongest={i === strongest || undefined}
              style={{ '--shade': piece.shade.toFixed(3) }}
            >
              {shown}
            </mark>
          );
        })}
        {read.length < text.length && <del title="Not read">{lines(text.slice(read.length))}</del>}
      </div>
    </section>
  );
}

// Hidden signs are shown, ends of lines stay.
function lines(text: string): string {
  return text.split('\n').map(plain).join('\n');
}
