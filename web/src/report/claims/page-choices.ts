// The choices on the claims page, which its address contains.

import { encodeText, parseFields, printFields } from '../../shared/address-fields';
import { DEFAULT_FIGURE_OPTIONS, parseFigureOptions, printFigureOptions, type FigureOptions } from '../figure-options';
import { OUTCOMES, type Claim, type Ledger, type Outcome } from './ledger';

export interface Choices {
  topic: string; // empty for all
  outcomes: Outcome[]; // empty for all
  doubtful: boolean; // only claims whose control got the same verdict
  search: string;
  open: string[];
  tried: string[]; // claims whose preset is open in the plane
  figures: Record<string, FigureOptions>;
  at: string; // the claim to scroll to; not in the address
}

export const NO_CHOICES: Choices = {
  topic: '',
  outcomes: [],
  doubtful: false,
  search: '',
  open: [],
  tried: [],
  figures: {},
  at: '',
};

const MAX_SEARCH_LENGTH = 200;

export function printChoices(choices: Choices): string {
  const figures = Object.entries(choices.figures)
    .map(([id, options]) => [id, printFigureOptions(options)])
    .filter(([, changed]) => changed)
    .map(([id, changed]) => `${id}:${changed}`);
  const all: [string, string][] = [
    ['topic', choices.topic],
    ['verdict', choices.outcomes.map((each) => each.replaceAll(' ', '-')).join('.')],
    ['doubtful', choices.doubtful ? '1' : ''],
    ['text', encodeText(choices.search)],
    ['open', choices.open.join('.')],
    ['try', choices.tried.join('.')],
    ['figure', figures.join(',')],
  ];
  return printFields(all);
}

// An address that is only the name of a claim opens it. Ignores unknown values.
export function parseChoices(fragment: string, ledger: Ledger): Choices {
  const values = parseFields(fragment);
  const known = new Set(ledger.claims.map((each) => each.id));
  const named = fragment.replace(/^#/, '');
  if (known.has(named)) return { ...NO_CHOICES, open: [named], at: named };
  const several = (name: string): string[] =>
    [...new Set((values.get(name) ?? '').split('.'))].filter((id) => known.has(id));
  const open = several('open');
  const topic = values.get('topic') ?? '';
  const outcomes = (values.get('verdict') ?? '').split('.').map((each) => each.replaceAll('-', ' '));
  const figures: Record<string, FigureOptions> = {};
  for (const part of (values.get('figure') ?? '').split(',')) {
    const [id, changed = ''] = part.split(':');
    if (known.has(id)) figures[id] = parseFigureOptions(changed);
  }
  return {
    topic: ledger.topics.some((each) => each.id === topic) ? topic : '',
    outcomes: OUTCOMES.filter((each) => outcomes.includes(each)),
    doubtful: values.get('doubtful') === '1',
    search: (values.get('text') ?? '').slice(0, MAX_SEARCH_LENGTH),
    open,
    tried: several('try'),
    figures,
    at: open.length === 1 ? open[0] : '',
  };
}

export function figureOptions(choices: Choices, id: string): FigureOptions {
  return Object.hasOwn(choices.figures, id) ? choices.figures[id] : DEFAULT_FIGURE_OPTIONS;
}

// Whether a claim passes all filters; every word of the search must occur in it.
export function matches(claim: Claim, choices: Choices): boolean {
  if (choices.topic && claim.topic !== choices.topic) return false;
  if (choices.outcomes.length && !choices.outcomes.includes(claim.outcome ?? 'not run'))
    return false;
  if (choices.doubtful && claim.trusted !== false) return false;
  const all = `${claim.id} ${claim.statement} ${claim.why} ${claim.measured} ${claim.reference}`;
  const text = all.toLowerCase();
  return choices.search
    .toLowerCase()
    .split(/\s+/)
    .every((word) => text.includes(word));
}
