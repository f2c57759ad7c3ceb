// Files of exactly what is shown.

import type { Choices } from '../choices';
import { csv } from '../../shared/csv';
import type { Measure } from '../../shared/fonts';
import { png } from '../paint';
import { bareName, csvFile, svgFile, type Make } from '../../shared/save';
import { svg } from '../svg';
import type { Theme } from '../../shared/theme';
import type { Drawing, Frame, View } from '../view';
import { Files } from '../../shared/files';

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
  const files: [string, Make][] = [
    ['SVG', () => svgFile(svg(now(), `${title}: ${view.title}`, theme, measure))],
    ['PNG', () => png(now(), theme, measure)],
    ['CSV', () => csvFile(csv(view.table(frame)))],
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
      <Files {...{ name, files }} what="what is shown" />
    </span>
  );
}

// Of the title, the view and the layer.
export function fileName(title: string, view: string, layer: number): string {
  return [bareName(title), view, `layer${layer}`].filter(Boolean).join('-');
}
