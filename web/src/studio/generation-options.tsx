// Options of text generation: beam search or sampling.

import { NumberField } from './components';

export interface GenerationOptions {
  kind: 'search' | 'sample';
  count: string;
  beams: string;
  temperature: string;
  topK: string;
  topP: string;
  seed: string;
  block: string;
}

export const DEFAULT_OPTIONS: GenerationOptions = {
  kind: 'search',
  count: '3',
  beams: '6',
  temperature: '0.8',
  topK: '',
  topP: '',
  seed: '0',
  block: '3',
};

const MAX = { beams: 16, temperature: 5, topK: 1000, seed: 2 ** 31 - 1, block: 10 };

// The fields of the request, and a message about the first invalid option.
export function checkOptions(
  options: GenerationOptions,
  maxCount: number,
  label = 'Summaries',
): { request: Record<string, number>; problem: string } {
  const problems: string[] = [];
  const whole = (name: string, text: string, low: number, high: number): number => {
    const value = Number(text);
    if (text.trim() === '' || !Number.isInteger(value) || value < low || value > high)
      problems.push(`${name}: give a whole number from ${low} to ${high}.`);
    return value;
  };
  const request: Record<string, number> = {
    count: whole(label, options.count, 1, maxCount),
    seed: whole('Seed', options.seed, 0, MAX.seed),
    block: whole('No repeats of', options.block, 0, MAX.block),
  };
  if (options.kind === 'search') {
    request.beams = whole('Beams', options.beams, 1, MAX.beams);
    return { request, problem: problems[0] ?? '' };
  }
  request.temperature = Number(options.temperature);
  if (!(request.temperature > 0 && request.temperature <= MAX.temperature))
    problems.push(`Temperature: give a number above 0 and at most ${MAX.temperature}.`);
  if (options.topK.trim()) request.top_k = whole('Top k', options.topK, 1, MAX.topK);
  if (options.topP.trim()) {
    request.top_p = Number(options.topP);
    if (!(request.top_p > 0 && request.top_p <= 1)) problems.push('Top p: give a number above 0 and at most 1.');
  }
  return { request, problem: problems[0] ?? '' };
}

interface Props {
  options: GenerationOptions;
  change: (options: GenerationOptions) => void;
  maxCount: number;
  label: string; // of the number of texts
}

export function GenerationOptionFields({ options, change, maxCount, label }: Props) {
  const field = (name: keyof GenerationOptions) => ({
    value: options[name],
    change: (value: string) => change({ ...options, [name]: value }),
  });
  const sampling = options.kind === 'sample';
  return (
    <fieldset class="ways">
      <legend class="quiet">Generation options</legend>
      <div class="choice" role="group" aria-label="Generation method">
        {(['search', 'sample'] as const).map((kind) => (
          <button
            key={kind}
            type="button"
            aria-pressed={options.kind === kind}
            onClick={() => change({ ...options, kind })}
          >
            {kind === 'search' ? 'Beam search' : 'Sampling'}
          </button>
        ))}
      </div>
      <div class="fields">
        <NumberField name={label} low={1} high={maxCount} {...field('count')} />
        {!sampling && (
          <NumberField name="Beams" low={1} high={16} {...field('beams')} title="How many candidate texts the search keeps" />
        )}
        {sampling && (
          <>
            <NumberField
              name="Temperature"
              low={0.05}
              high={5}
              step={0.05}
              {...field('temperature')}
              title="1 uses the model's probabilities; lower values prefer probable tokens"
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
          title="No sequence of this many tokens occurs twice; 0 disables it"
        />
      </div>
    </fieldset>
  );
}
