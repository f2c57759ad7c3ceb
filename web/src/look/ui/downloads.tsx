// Download buttons: SVG, PNG and CSV of exactly what the page shows.

import type { Choices } from '../choices';
import { csv } from '../../shared/csv';
import type { Measure } from '../../shared/fonts';
import { renderPng } from '../paint-canvas';
import { bareName, csvFile, svgFile, type Make } from '../../shared/save';
import { writeSvg } from '../write-svg';
import type { Theme } from '../../shared/theme';
import type { Drawing, Frame, View } from '../view';
import { Files } from '../../shared/files';

interface DownloadsProps {
  view: View;
  frame: Frame;
  theme: Theme;
  measure: Measure;
  choices: Choices;
  change: (changes: Partial<Choices>) => void;
  drawing: () => Drawing | null;
}

export function Downloads({
  view,
  frame,
  theme,
  measure,
  choices,
  change,
  drawing,
}: DownloadsProps) {
  const { title } = frame.capture.header;
  const name = fileName(title, view.id, frame.choices.layer);
  const currentDrawing = (): Drawing => drawing() ?? view.draw(frame);
  const files: [string, Make][] = [
    ['SVG', () => svgFile(writeSvg(currentDrawing(), `${title}: ${view.title}`, theme, measure))],
    ['PNG', () => renderPng(currentDrawing(), theme, measure)],
    ['CSV', () => csvFile(csv(view.table(frame)))],
  ];
  return (
    <span class="group downloads">
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

// A file name from the title, the view and the layer.
export function fileName(title: string, view: string, layer: number): string {
  return [bareName(title), view, `layer${layer}`].filter(Boolean).join('-');
}
