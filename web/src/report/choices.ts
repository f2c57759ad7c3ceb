// What a person has chosen on the report page; the address holds it.

import { decoded, fields, printFields } from '../shared/address';
import { readPlot, type Plot } from './plot';
import { AS_GIVEN, parseShown, printShown, type Shown } from './shown';
import type { Report } from './report-types';

export interface Choices {
  section: string;
  hidden: string[]; // names of lines that are hidden in all figures
  figures: Record<string, Shown>; // by "section.block"; lines are hidden by name instead
}

const MANY = 64;

export function print({ section, hidden, figures }: Choices, report: Report): string {
  const changed = Object.entries(figures)
    .map(([key, shown]) => [key, printShown({ ...shown, hidden: [] })])
    .filter(([, how]) => how)
    .map(([key, how]) => `${key}:${how}`);
  const all: [string, string][] = [
    ['show', section === report.sections[0]?.name ? '' : section],
    // twice: the address is decoded as a whole, and names may hold the sign between them
    ['hide', encodeURIComponent(hidden.map(encodeURIComponent).join('|'))],
    ['figure', changed.join(',')],
  ];
  return printFields(all);
}

// What is unknown is ignored.
export function parse(fragment: string, report: Report): Choices {
  const found = fields(fragment);
  const wanted = found.get('show') ?? '';
  const section = report.sections.find((each) => each.name === wanted) ?? report.sections[0];
  const known = new Set(namesOf(report));
  const keys = new Set(report.sections.flatMap((each) => each.blocks.map((_, i) => `${each.name}.${i}`)));
  const figures: Record<string, Shown> = {};
  for (const part of (found.get('figure') ?? '').split(',')) {
    const [key, how = ''] = part.split(':');
    if (keys.has(key)) figures[key] = parseShown(how);
  }
  return {
    section: section?.name ?? '',
    hidden: (found.get('hide') ?? '')
      .split('|')
      .map((text) => decoded(text) ?? '')
      .filter((name) => known.has(name))
      .slice(0, MANY),
    figures,
  };
}

function namesOf(report: Report): string[] {
  return report.sections
    .flatMap((section) => section.blocks)
    .map((block) => (block.kind === 'figure' ? readPlot(block.plot) : null))
    .flatMap((plot) => (plot?.kind === 'lines' ? plot.series.map(({ name }) => name) : []));
}

// A figure's own switches, and the lines that are hidden by name.
export function shownOf(choices: Choices, key: string, plot: Plot): Shown {
  const own = Object.hasOwn(choices.figures, key) ? choices.figures[key] : AS_GIVEN;
  if (plot.kind !== 'lines') return own;
  const hidden = plot.series.flatMap(({ name }, i) => (choices.hidden.includes(name) ? [i] : []));
  return { ...own, hidden };
}

// A line that is hidden in one figure is hidden in all.
export function changed(choices: Choices, key: string, plot: Plot, shown: Shown): Choices {
  const figures = { ...choices.figures, [key]: { ...shown, hidden: [] } };
  if (plot.kind !== 'lines') return { ...choices, figures };
  const here = plot.series.map(({ name }) => name);
  const off = shown.hidden.map((i) => here[i]);
  const elsewhere = choices.hidden.filter((name) => !here.includes(name));
  return { ...choices, figures, hidden: [...new Set([...elsewhere, ...off])].slice(0, MANY) };
}
