// What a person has chosen on the claims page; the address holds it.

import { encoded, fields, printFields } from '../../shared/address';
import { AS_GIVEN, parseShown, printShown, type Shown } from '../shown';
import { OUTCOMES, type Claim, type Ledger, type Outcome } from './ledger';

export interface Choices {
  topic: string; // empty: all
  outcomes: Outcome[]; // empty: all
  doubtful: boolean; // only those whose control did not disagree
  search: string;
  open: string[];
  tried: string[]; // opened in the plane
  figures: Record<string, Shown>;
  at: string; // where to go; not in the address
}

export const NOTHING: Choices = {
  topic: '',
  outcomes: [],
  doubtful: false,
  search: '',
  open: [],
  tried: [],
  figures: {},
  at: '',
};

const SEARCH = 200;

export function print(choices: Choices): string {
  const figures = Object.entries(choices.figures)
    .map(([id, shown]) => [id, printShown(shown)])
    .filter(([, changed]) => changed)
    .map(([id, changed]) => `${id}:${changed}`);
  const all: [string, string][] = [
    ['topic', choices.topic],
    ['verdict', choices.outcomes.map((each) => each.replaceAll(' ', '-')).join('.')],
    ['doubtful', choices.doubtful ? '1' : ''],
    ['text', encoded(choices.search)],
    ['open', choices.open.join('.')],
    ['try', choices.tried.join('.')],
    ['figure', figures.join(',')],
  ];
  return printFields(all);
}

// A claim's name alone opens it and goes there. What is unknown is ignored.
export function parse(fragment: string, ledger: Ledger): Choices {
  const found = fields(fragment);
  const known = new Set(ledger.claims.map((each) => each.id));
  const named = fragment.replace(/^#/, '');
  if (known.has(named)) return { ...NOTHING, open: [named], at: named };
  const several = (name: string): string[] =>
    [...new Set((found.get(name) ?? '').split('.'))].filter((id) => known.has(id));
  const open = several('open');
  const topic = found.get('topic') ?? '';
  const outcomes = (found.get('verdict') ?? '').split('.').map((each) => each.replaceAll('-', ' '));
  const figures: Record<string, Shown> = {};
  for (const part of (found.get('figure') ?? '').split(',')) {
    const [id, changed = ''] = part.split(':');
    if (known.has(id)) figures[id] = parseShown(changed);
  }
  return {
    topic: ledger.topics.some((each) => each.id === topic) ? topic : '',
    outcomes: OUTCOMES.filter((each) => outcomes.includes(each)),
    doubtful: found.get('doubtful') === '1',
    search: (found.get('text') ?? '').slice(0, SEARCH),
    open,
    tried: several('try'),
    figures,
    at: open.length === 1 ? open[0] : '',
  };
}

export function figureOf(choices: Choices, id: string): Shown {
  return Object.hasOwn(choices.figures, id) ? choices.figures[id] : AS_GIVEN;
}

// Every word must be somewhere in the claim.
export function matches(claim: Claim, choices: Choices): boolean {
  if (choices.topic && claim.topic !== choices.topic) return false;
  if (choices.outcomes.length && !choices.outcomes.includes(claim.outcome ?? 'not run'))
    return false;
  if (choices.doubtful && claim.trusted !== false) return false;
  const all = `${claim.id} ${claim.statement} ${claim.why} ${claim.measured} ${claim.reference}`;
  const where = all.toLowerCase();
  return choices.search
    .toLowerCase()
    .split(/\s+/)
    .every((word) => where.includes(word));
}
