// The button that shows the table, and "Save figure".

import type { Choices } from '../choices';
import type { Measure } from '../../shared/text-width';
import { toFileName } from '../../shared/download';
import { COLUMN_PIXELS, SaveFigure, type SaveOptions } from '../../shared/save-figure';
import { writeSvg } from '../write-svg';
import { theme as themeOf, type Mode } from '../../shared/theme';
import { figureDrawing } from '../figure-drawing';
import type { Frame, View } from '../view';

interface DownloadsProps {
  view: View;
  frame: Frame;
  mode: Mode;
  measure: Measure;
  choices: Choices;
  change: (changes: Partial<Choices>) => void;
}

export function Downloads({ view, frame, mode, measure, choices, change }: DownloadsProps) {
  const { title } = frame.capture.header;
  const svg = ({ mode: colors, columns, caption }: SaveOptions): string => {
    const drawing = figureDrawing(view, { ...frame, width: COLUMN_PIXELS[columns] }, caption);
    return writeSvg(drawing, `${title}: ${view.title}`, themeOf(colors), measure);
  };
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
      <SaveFigure
        {...{ mode, svg }}
        name={fileName(title, view.id, frame.choices.layer)}
        table={() => view.table(frame)}
        above
      />
    </span>
  );
}

// A file name from the title, the view and the layer.
export function fileName(title: string, view: string, layer: number): string {
  return [toFileName(title), view, `layer${layer}`].filter(Boolean).join('-');
}
