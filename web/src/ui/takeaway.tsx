// Files of exactly what is shown.

import type { Choices } from '../choices';
import { csv } from '../csv';
import type { Measure } from '../fonts';
import { png } from '../paint';
import { svg } from '../svg';
import type { Theme } from '../theme';
import type { Drawing, Frame, View } from '../view';

interface TakeawayProps {
  view: View;
  frame: Frame;
  theme: Theme;
  measure: Measure;
  choices: Choices;
  change: (some: Partial<Choices>) => void;
  drawing: () => Drawing | null;
}

export function Takeaway({ view, frame, theme, measure, choices, change, drawing }: TakeawayProps) {
  const { title } = frame.opened.header;
  const name = fileName(title, view.id, frame.choices.layer);
  const now = (): Drawing => drawing() ?? view.draw(frame);
  const files: [string, () => Promise<Blob | null> | Blob][] = [
    [
      'SVG',
      () =>
        new Blob([svg(now(), `${title}: ${view.title}`, theme, measure)], {
          type: 'image/svg+xml',
        }),
    ],
    ['PNG', () => png(now(), theme, measure)],
    ['CSV', () => new Blob([csv(view.table(frame))], { type: 'text/csv;charset=utf-8' })],
  ];
  return (
    <span class="group take">
      <button
        type="button"
        aria-pressed={choices.table}
        title="Key: t"
        onClick={() => change({ table: !choices.table })}
      >
        {choices.table ? 'Drawing' : 'Table'}
      </button>
      {files.map(([kind, make]) => (
        <button
          key={kind}
          type="button"
          title={`Save what is shown as ${kind}`}
          onClick={() => void save(make, `${name}.${kind.toLowerCase()}`)}
        >
          {kind}
        </button>
      ))}
    </span>
  );
}

async function save(make: () => Promise<Blob | null> | Blob, name: string): Promise<void> {
  const blob = await make();
  if (!blob) return;
  const link = document.createElement('a');
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

// Letters and digits of the title, the view and the layer.
export function fileName(title: string, view: string, layer: number): string {
  const plain = title
    .normalize('NFKD')
    .replace(/[^A-Za-z0-9]+/g, '-')
    .replace(/^-+|-+$/g, '')
    .slice(0, 40);
  return [plain, view, `layer${layer}`].filter(Boolean).join('-').toLowerCase();
}
