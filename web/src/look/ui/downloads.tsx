// Download buttons: SVG, PNG and CSV of exactly what the page shows.

import type { Choices } from '../choices';
import { toCsv } from '../../shared/csv';
import type { Measure } from '../../shared/text-width';
import { renderPng } from '../paint-canvas';
import { toFileName, csvFile, svgFile, type MakeFile } from '../../shared/download';
import { writeSvg } from '../write-svg';
import type { Theme } from '../../shared/theme';
import type { Drawing, Frame, View } from '../view';
import { DownloadButtons } from '../../shared/download-buttons';

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
  const files: [string, MakeFile][] = [
    ['SVG', () => svgFile(writeSvg(currentDrawing(), `${title}: ${view.title}`, theme, measure))],
    ['PNG', () => renderPng(currentDrawing(), theme, measure)],
    ['CSV', () => csvFile(toCsv(view.table(frame)))],
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
      <DownloadButtons {...{ name, files }} what="what is shown" />
    </span>
  );
}

// A file name from the title, the view and the layer.
export function fileName(title: string, view: string, layer: number): string {
  return [toFileName(title), view, `layer${layer}`].filter(Boolean).join('-');
}
