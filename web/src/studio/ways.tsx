// How summaries are written: the likeliest, by a search with beams, or drawn.

import { NumberField } from './parts';

export interface Way {
  kind: 'search' | 'draw';
  count: string;
  beams: string;
  temperature: string;
  topK: string;
  topP: string;
  seed: string;
  block: string;
}

export const GIVEN: Way = {
  kind: 'search',
  count: '3',
  beams: '6',
  temperature: '0.8',
  topK: '',
  topP: '',
  seed: '0',
  block: '3',
};

const MOST = { beams: 16, temperature: 5, topK: 1000, seed: 2 ** 31 - 1, block: 10 };

// What is sent, and what is wrong with it in words.
export function wayOf(
  way: Way,
  summaries: number,
  what = 'Summaries',
): { sent: Record<string, number>; wrong: string } {
  const wrong: string[] = [];
  const whole = (name: string, text: string, low: number, high: number): number => {
    const value = Number(text);
    if (text.trim() === '' || !Number.isInteger(value) || value < low || value > high)
      wrong.push(`${name}: a whole number from ${low} to ${high}.`);
    return value;
  };
  const sent: Record<string, number> = {
    count: whole(what, way.count, 1, summaries),
    seed: whole('Seed', way.seed, 0, MOST.seed),
    block: whole('No repeats of', way.block, 0, MOST.block),
  };
  if (way.kind === 'search') {
    sent.beams = whole('Beams', way.beams, 1, MOST.beams);
    return { sent, wrong: wrong[0] ?? '' };
  }
  sent.temperature = Number(way.temperature);
  if (!(sent.temperature > 0 && sent.temperature <= MOST.temperature))
    wrong.push(`Temperature: above 0, at most ${MOST.temperature}.`);
  if (way.topK.trim()) sent.top_k = whole('Top k', way.topK, 1, MOST.topK);
  if (way.topP.trim()) {
    sent.top_p = Number(way.topP);
    if (!(sent.top_p > 0 && sent.top_p <= 1)) wrong.push('Top p: above 0, at most 1.');
  }
  return { sent, wrong: wrong[0] ?? '' };
}

interface Props {
  way: Way;
  change: (way: Way) => void;
  most: number;
  what: string; // that is written
}

export function Ways({ way, change, most, what }: Props) {
  const field = (name: keyof Way) => ({
    value: way[name],
    change: (value: string) => change({ ...way, [name]: value }),
  });
  const draw = way.kind === 'draw';
  return (
    <fieldset class="ways">
      <legend class="quiet">How to write</legend>
      <div class="choice" role="group" aria-label="How words are chosen">
        {(['search', 'draw'] as const).map((kind) => (
          <button
            key={kind}
            type="button"
            aria-pressed={way.kind === kind}
            onClick={() => change({ ...way, kind })}
          >
            {kind === 'search' ? 'The likeliest' : 'Drawn'}
          </button>
        ))}
      </div>
      <div class="fields">
        <NumberField name={what} low={1} high={most} {...field('count')} />
        {!draw && (
          <NumberField name="Beams" low={1} high={16} {...field('beams')} title="Searched side by side" />
        )}
        {draw && (
          <>
            <NumberField
              name="Temperature"
              low={0.05}
              high={5}
              step={0.05}
              {...field('temperature')}
              title="1: as likely as the model says; less: the likelier ones more often"
            />
            <NumberField name="Top k" low={1} high={1000} placeholder="all" {...field('topK')} />
            <NumberField name="Top p" low={0.05} high={1} step={0.05} placeholder="1" {...field('topP')} />
            <NumberField name="Seed" low={0} high={2 ** 31 - 1} {...field('seed')} />
          </>
        )}
        <NumberField
          name="No repeats of"
          low={0}
          high={10}
          {...field('block')}
          title="So many tokens in a row never come twice; 0: they may"
        />
      </div>
    </fieldset>
  );
}
