// The choices on the report page, which its address contains.

import { decodeText, parseFields, printFields } from '../shared/address-fields';
import { readPlot, type Plot } from './plot-data';
import { DEFAULT_FIGURE_OPTIONS, parseFigureOptions, printFigureOptions, type FigureOptions } from './figure-options';
import type { Report } from './report-types';

export interface Choices {
  section: string;
  hidden: string[]; // names of lines that are hidden in all figures
  figures: Record<string, FigureOptions>; // by "section.block"; `hidden` lists hidden lines by name
}

const MAX_HIDDEN = 64;

export function printChoices({ section, hidden, figures }: Choices, report: Report): string {
  const changed = Object.entries(figures)
    .map(([key, options]) => [key, printFigureOptions({ ...options, hidden: [] })])
    .filter(([, text]) => text)
    .map(([key, text]) => `${key}:${text}`);
  const all: [string, string][] = [
    ['show', section === report.sections[0]?.name ? '' : section],
    // encoded twice: the address is decoded as a whole, and names may contain the separator
    ['hide', encodeURIComponent(hidden.map(encodeURIComponent).join('|'))],
    ['figure', changed.join(',')],
  ];
  return printFields(all);
}

// Ignores unknown values.
export function parseChoices(fragment: string, report: Report): Choices {
  const values = parseFields(fragment);
  const name = values.get('show') ?? '';
  const section = report.sections.find((candidate) => candidate.name === name) ?? report.sections[0];
  const known = new Set(lineNames(report));
  const keys = new Set(report.sections.flatMap(({ name, blocks }) => blocks.map((_, i) => `${name}.${i}`)));
  const figures: Record<string, FigureOptions> = {};
  for (const part of (values.get('figure') ?? '').split(',')) {
    const [key, text = ''] = part.split(':');
    if (keys.has(key)) figures[key] = parseFigureOptions(text);
  }
  return {
    section: section?.name ?? '',
    hidden: (values.get('hide') ?? '')
      .split('|')
      .map((text) => decodeText(text) ?? '')
      .filter((name) => known.has(name))
      .slice(0, MAX_HIDDEN),
    figures,
  };
}

function lineNames(report: Report): string[] {
  return report.sections
    .flatMap((section) => section.blocks)
    .map((block) => (block.kind === 'figure' ? readPlot(block.plot) : null))
    .flatMap((plot) => (plot?.kind === 'lines' ? plot.series.map(({ name }) => name) : []));
}

// The options of a figure, with the lines that are hidden by name.
export function figureOptions(choices: Choices, key: string, plot: Plot): FigureOptions {
  const own = Object.hasOwn(choices.figures, key) ? choices.figures[key] : DEFAULT_FIGURE_OPTIONS;
  if (plot.kind !== 'lines') return own;
  const hidden = plot.series.flatMap(({ name }, i) => (choices.hidden.includes(name) ? [i] : []));
  return { ...own, hidden };
}

// Changes a figure; hiding a line hides it in all figures.
export function changeFigure(choices: Choices, key: string, plot: Plot, options: FigureOptions): Choices {
  const figures = { ...choices.figures, [key]: { ...options, hidden: [] } };
  if (plot.kind !== 'lines') return { ...choices, figures };
  const here = plot.series.map(({ name }) => name);
  const hiddenHere = options.hidden.map((i) => here[i]);
  const elsewhere = choices.hidden.filter((name) => !here.includes(name));
  return { ...choices, figures, hidden: [...new Set([...elsewhere, ...hiddenHere])].slice(0, MAX_HIDDEN) };
}
