// The steps of the walkthrough: for each its title, two sentences with the capture's numbers, its
// formula, and what the capture lacks for it.

import type { ComponentChildren } from 'preact';
import { count, isolate, number, quoted, sensible, short, whole, wholePercent } from '../../shared/readable-text';
import { headName, layerTitle } from '../names';
import { vectorNorm } from '../views/attention-scores';
import { Formula, Frac, Num, Op, Sub, Sum, Var, Vec, Word } from './math';
import { weightsAt, type Walk } from './walk-data';

export type StageId =
  | 'embedding' | 'vectors' | 'scores' | 'mask' | 'softmax' | 'values' | 'heads' | 'feed' | 'logits';

export interface Stage {
  id: StageId;
  title: (walk: Walk) => string;
  short: string; // under the path
  sentences: (walk: Walk, temperature: number) => [string, string];
  formula: (walk: Walk, temperature: number) => ComponentChildren;
  missing: (walk: Walk) => string | null; // what the capture lacks, and why
}

const token = (walk: Walk): string => quoted(walk.queries[walk.query].text, 16);
const keyOf = (walk: Walk, key = walk.key): string => quoted(walk.keys[key].text, 16);
const layerOf = (walk: Walk): string => layerTitle(walk.side, walk.index);
const headOf = (walk: Walk): string => `head ${headName(walk.layer, walk.head)}`;
const mechanismOf = (walk: Walk): string => isolate(short(walk.layer.mechanism, 30));
const length = (values: Float32Array): string => number(vectorNorm(values), 2);

const OTHER_TOKEN = 'The capture has these numbers for one token of one layer only.';
const because = (walk: Walk, part: keyof NonNullable<Walk['recorded']>['reasons']): string =>
  walk.recorded ? whole(walk.recorded.reasons[part] ?? 'The capture does not have them.') : OTHER_TOKEN;

const largest = (values: ArrayLike<number>, allowed: ArrayLike<number>): number => {
  let best = -1;
  for (let i = 0; i < values.length; i += 1)
    if (allowed[i] && (best < 0 || values[i] > values[best])) best = i;
  return Math.max(0, best);
};

const J = <Var>j</Var>;
const I = <Var>i</Var>;

// What a layer reads: of most models the normalized stream.
function Normed({ walk, children }: { walk: Walk; children: ComponentChildren }) {
  if (!walk.parts.length || !walk.normFirst) return <mrow>{children}</mrow>;
  return (
    <mrow>
      <mi>norm</mi>
      <Op>(</Op>
      {children}
      <Op>)</Op>
    </mrow>
  );
}

function streamSentence(walk: Walk): string {
  const blocks = walk.recorded?.block ?? 0;
  if (!walk.recorded) return 'What the layers add to this vector, one after the other, is the residual stream.';
  return blocks
    ? `${layerOf(walk)} reads this vector after ${count(blocks, 'earlier block')} ${blocks === 1 ? 'has' : 'have'} added to it; this running sum is the residual stream.`
    : `${layerOf(walk)} reads exactly this vector; what the layers add to it is the residual stream.`;
}

const embedding: Stage = {
  id: 'embedding',
  short: 'Embedding',
  title: () => 'A token becomes a vector',
  missing: (walk) => (walk.embedding || walk.input ? null : because(walk, 'embedding')),
  sentences: (walk) => {
    const { query, queries, embedding: first, input, recorded } = walk;
    const size = first ?? input;
    if (walk.side.sequences[walk.layer.queries].image)
      return [
        `${token(walk)}, a patch of the image or a token beside it, enters the model as a vector${size ? ` of ${count(size.length, 'number')}` : ''}: its pixels times a learned matrix, with its position.`,
        streamSentence(walk),
      ];
    const start =
      `${token(walk)} is token ${query + 1} of ${queries.length}` +
      (size ? ` and enters the model as a vector of ${count(size.length, 'number')}` : '') +
      `: a learned row of its embedding table${recorded?.rotary ? '' : ', with its position where the model adds one here'}.`;
    return [start, streamSentence(walk)];
  },
  formula: (walk) => walk.side.sequences[walk.layer.queries].image ? (
    <Formula label="x sub i equals W times the pixels of patch i, plus its position">
      <Sub of={<Vec>x</Vec>} at={I} />
      <Op>=</Op>
      <Sub of={<Var>W</Var>} at={<Word>pixels</Word>} />
      <Sub of={<Word>patch</Word>} at={I} />
      <Op>+</Op>
      <Sub of={<Word>position</Word>} at={I} />
    </Formula>
  ) : (
    <Formula label="x sub i equals the embedding of token i">
      <Sub of={<Vec>x</Vec>} at={I} />
      <Op>=</Op>
      <Word>embedding</Word>
      <Op>[</Op>
      <Sub of={<Word>token</Word>} at={I} />
      <Op>]</Op>
    </Formula>
  ),
};

function groupSentence(walk: Walk): string {
  const { layer, head, recorded } = walk;
  const groups = layer.groups ?? [];
  const shared = new Set(groups).size;
  const position = recorded?.rotary
    ? ' Query and key are rotated by their positions, so that their product knows the distance.'
    : '';
  if (layer.kind === 'cross')
    return `The query comes from ${quoted(walk.queries[walk.query].text, 16)}, keys and values from the other text, which the encoder read.`;
  if (!shared || shared === groups.length)
    return `The query is what the token asks, the key what it is found by, the value what it passes on.${position}`;
  const same = groups.filter((each) => each === groups[head]).length;
  return `${count(groups.length, 'query head')} share ${count(shared, 'key head')}: ${same} of them read the same keys and values.${position}`;
}

const vectors: Stage = {
  id: 'vectors',
  short: 'Query, key, value',
  title: () => 'Query, key and value',
  missing: (walk) =>
    walk.q || walk.keyVector(0) || walk.valueVector(0) ? null : because(walk, walk.recorded?.k ? 'vectors' : 'keys'),
  sentences: (walk) => [
    `Three learned matrices turn what ${layerOf(walk)} reads into a query, a key and a value of ${headOf(walk)}${walk.q ? `, ${count(walk.q.length, 'number')} each` : ''}.`,
    groupSentence(walk),
  ],
  formula: (walk) => (
    <Formula label="q sub i equals W Q x sub i, k sub j equals W K x sub j, v sub j equals W V x sub j">
      {(['q', 'k', 'v'] as const).map((name, n) => (
        <mrow key={name}>
          {n > 0 && <mspace width="1.2em" />}
          <Sub of={<Vec>{name}</Vec>} at={n ? J : I} />
          <Op>=</Op>
          <Sub of={<Var>W</Var>} at={<Var>{name.toUpperCase()}</Var>} />
          <Normed walk={walk}><Sub of={<Vec>x</Vec>} at={n ? J : I} /></Normed>
        </mrow>
      ))}
    </Formula>
  ),
};

const notSoftmax = (walk: Walk): string =>
  `${mechanismOf(walk)} computes its weights in another way than a softmax of scores; what you see here are the bare products of its queries and keys.`;

const scores: Stage = {
  id: 'scores',
  short: 'Scores',
  title: (walk) => (walk.isSoftmax ? 'How well each key answers' : 'Queries meet keys'),
  missing: (walk) => {
    if (walk.dots) return null;
    const { q, k } = walk.layer;
    return walk.layer.mechanism !== 'softmax' && walk.recorded && !walk.recorded.q && !q && !k
      ? `${mechanismOf(walk)} compares no queries with keys.`
      : because(walk, 'vectors');
  },
  sentences: (walk) => {
    const { dots, scores: all, allowed, layer } = walk;
    const first = walk.isSoftmax
      ? `The score of a key is its dot product with the query of ${token(walk)}${layer.scale === null ? '' : `, times ${number(layer.scale, 3)}`}${walk.bias ? ', plus a bias for its position' : ''}.`
      : notSoftmax(walk);
    const shown = walk.isSoftmax ? all : dots;
    if (!shown) return [first, 'A high score means that query and key point the same way.'];
    const best = largest(shown, allowed);
    return [
      first,
      `${keyOf(walk, best)} has the highest ${walk.isSoftmax ? 'score' : 'product'}, ${number(shown[best], 2)}: its key points most in the direction of this query.`,
    ];
  },
  formula: (walk) => {
    const { layer, dots, scores: all, key, bias } = walk;
    const root = dots && walk.q && layer.scale !== null
      && Math.abs(layer.scale * Math.sqrt(walk.q.length) - 1) < 1e-3;
    const product = (
      <>
        <Sub of={<Vec>q</Vec>} at={I} />
        <Op>·</Op>
        <Sub of={<Vec>k</Vec>} at={J} />
      </>
    );
    return (
      <Formula label="s sub i j equals q sub i dot k sub j, scaled">
        <Sub of={<Var>s</Var>} at={<>{I}{J}</>} />
        <Op>=</Op>
        {!walk.isSoftmax || layer.scale === null || layer.scale === 1 ? product
          : root ? <Frac top={product} bottom={<msqrt><Num>{walk.q?.length}</Num></msqrt>} />
            : <>{product}<Op>×</Op><Num>{number(layer.scale, 4)}</Num></>}
        {bias && walk.isSoftmax && <><Op>+</Op><Sub of={<Var>b</Var>} at={<>{I}{J}</>} /></>}
        {dots && (
          <>
            <Op>=</Op>
            {walk.isSoftmax && root && !bias && (
              <>
                <Frac top={<Num>{number(dots[key], 2)}</Num>} bottom={<Num>{number(1 / (layer.scale ?? 1), 2)}</Num>} />
                <Op>=</Op>
              </>
            )}
            <Num>{number((walk.isSoftmax && all ? all : dots)[key], 2)}</Num>
          </>
        )}
      </Formula>
    );
  },
};

const mask: Stage = {
  id: 'mask',
  short: 'Mask',
  title: (walk) => (walk.allowed.includes(0) ? 'What may not be seen' : 'Nothing is hidden'),
  missing: () => null,
  sentences: (walk) => {
    const hidden = walk.allowed.reduce((sum, may) => sum + 1 - may, 0);
    const { mask: index } = walk.layer;
    const causal = index !== null && walk.side.masks[index].causal;
    if (!hidden)
      return causal
        ? [`${token(walk)} is the last token, so it may look at all ${count(walk.keys.length, 'key')}.`,
          'The tokens before it may not look ahead: a causal mask hides from each what comes later.']
        : [`This layer has nothing to hide here: ${token(walk)} may look at all ${count(walk.keys.length, 'key')}, before and after it.`,
          'In a model that writes text, a causal mask would hide what comes later.'];
    return [
      `${count(hidden, 'key')} of ${walk.keys.length} ${hidden === 1 ? 'is' : 'are'} masked for ${token(walk)}${causal ? ': a model that writes token by token must not look ahead' : ''}.`,
      walk.isSoftmax
        ? 'Their scores become minus infinity, so that the softmax gives them a weight of exactly 0.'
        : 'Their weights are exactly 0.',
    ];
  },
  formula: (walk) => walk.isSoftmax ? (
    <Formula label="s sub i j becomes minus infinity where key j is masked">
      <Sub of={<Var>s</Var>} at={<>{I}{J}</>} />
      <Op>←</Op>
      <Op>−</Op>
      <Num>∞</Num>
      <mspace width="0.8em" />
      <Word>where</Word>
      <mspace width="0.4em" />
      <Var>j</Var>
      <mspace width="0.4em" />
      <Word>is masked for</Word>
      <mspace width="0.4em" />
      <Var>i</Var>
    </Formula>
  ) : (
    <Formula label="A sub i j equals 0 where key j is masked">
      <Sub of={<Var>A</Var>} at={<>{I}{J}</>} />
      <Op>=</Op>
      <Num>0</Num>
      <mspace width="0.8em" />
      <Word>where</Word>
      <mspace width="0.4em" />
      <Var>j</Var>
      <mspace width="0.4em" />
      <Word>is masked</Word>
    </Formula>
  ),
};

const softmax: Stage = {
  id: 'softmax',
  short: 'Softmax',
  title: (walk) => (walk.isSoftmax ? 'Scores become weights' : `Weights of ${mechanismOf(walk)}`),
  missing: () => null,
  sentences: (walk, temperature) => {
    const weights = weightsAt(walk, temperature) ?? walk.weights;
    const best = largest(weights, walk.allowed);
    const most = `${keyOf(walk, best)} gets ${walk.layer.signed ? sensible(weights[best]) : wholePercent(weights[best])}`;
    if (!walk.isSoftmax)
      return [
        `These weights of ${token(walk)} follow from the definition of ${mechanismOf(walk)}; ${most}, the most.`,
        walk.layer.normalised
          ? 'They sum to 1, as those of a softmax do.'
          : `They sum to ${number(walk.sum, 2)}: this mechanism does not force its weights to sum to 1${walk.layer.signed ? ', and they can be negative' : ''}.`,
      ];
    return [
      `Each score goes through the exponential function and is divided by the sum of all: ${most} of the attention of ${token(walk)}.`,
      temperature === 1
        ? 'The model uses temperature 1; move the slider to see how a lower one sharpens the choice and a higher one flattens it.'
        : `At temperature ${number(temperature, 2)} the choice is ${temperature < 1 ? 'sharper' : 'flatter'} than the model's own, which the small marks show.`,
    ];
  },
  formula: (walk, temperature) => walk.isSoftmax ? (
    <Formula label="A sub i j equals the exponential of s sub i j over tau, divided by their sum">
      <Sub of={<Var>A</Var>} at={<>{I}{J}</>} />
      <Op>=</Op>
      <Frac
        top={<><mi>exp</mi><Op>(</Op><Sub of={<Var>s</Var>} at={<>{I}{J}</>} /><Op>/</Op><Var>τ</Var><Op>)</Op></>}
        bottom={<><Sum over={<Var>m</Var>} /><mi>exp</mi><Op>(</Op><Sub of={<Var>s</Var>} at={<>{I}<Var>m</Var></>} /><Op>/</Op><Var>τ</Var><Op>)</Op></>}
      />
      <Op>=</Op>
      <Num>{sensible((weightsAt(walk, temperature) ?? walk.weights)[walk.key])}</Num>
    </Formula>
  ) : (
    <Formula label="the weights A, of which output i is A times the values">
      <Sub of={<Var>A</Var>} at={<>{I}{J}</>} />
      <Op>=</Op>
      <Num>{sensible(walk.weights[walk.key])}</Num>
    </Formula>
  ),
};

const values: Stage = {
  id: 'values',
  short: 'Weighted values',
  title: () => 'The values, weighted',
  missing: () => null,
  sentences: (walk) => {
    const { norms, weights, allowed } = walk;
    const first = `Each value counts as much as its weight; their sum is what ${headOf(walk)} brings to ${token(walk)}.`;
    if (!norms) return [first, 'The page does not have the lengths of these values.'];
    const brings = Float32Array.from(weights, (x, key) => Math.abs(x) * norms[key]);
    const [most, looked] = [largest(brings, allowed), largest(weights, allowed)];
    return [
      first,
      most === looked
        ? `${keyOf(walk, most)} brings the most: a weight of ${sensible(weights[most])} times a value of length ${number(norms[most], 2)}.`
        : `${keyOf(walk, looked)} has the largest weight, but ${keyOf(walk, most)} brings more: its value is longer, ${number(norms[most], 2)} against ${number(norms[looked], 2)}.`,
    ];
  },
  formula: () => (
    <Formula label="o sub i equals the sum over j of A sub i j times v sub j">
      <Sub of={<Vec>o</Vec>} at={I} />
      <Op>=</Op>
      <Sum over={J} />
      <Sub of={<Var>A</Var>} at={<>{I}{J}</>} />
      <Sub of={<Vec>v</Vec>} at={J} />
    </Formula>
  ),
};

const heads: Stage = {
  id: 'heads',
  short: 'Heads joined',
  title: (walk) => (walk.layer.all_heads === 1 ? 'The head reports' : 'The heads are joined'),
  missing: (walk) => (walk.outputs || walk.parts.length ? null : because(walk, 'heads')),
  sentences: (walk) => {
    const own = walk.parts.find((part) => part.kind === walk.layer.kind);
    return [
      `${count(walk.layer.all_heads, 'head')} worked side by side; one learned matrix mixes their outputs into a single vector.`,
      own && walk.input
        ? `It is added to the residual stream: a vector of length ${length(own.values)} to one of ${length(walk.input)}.`
        : 'It is added to the residual stream of the token.',
    ];
  },
  formula: (walk) => (
    <Formula label="x sub i becomes x sub i plus W O times the joined outputs of all heads">
      <Sub of={<Vec>x</Vec>} at={I} />
      <Op>←</Op>
      {walk.parts.length > 0 && !walk.normFirst && <><mi>norm</mi><Op>(</Op></>}
      <Sub of={<Vec>x</Vec>} at={I} />
      <Op>+</Op>
      <Sub of={<Var>W</Var>} at={<Var>O</Var>} />
      <Op>[</Op>
      <msubsup><Vec>o</Vec><Var>i</Var><Num>0</Num></msubsup>
      {walk.layer.all_heads > 1 && (
        <>
          <Op>;</Op>
          <Op>…</Op>
          <Op>;</Op>
          <msubsup><Vec>o</Vec><Var>i</Var><Num>{walk.layer.all_heads - 1}</Num></msubsup>
        </>
      )}
      <Op>]</Op>
      {walk.parts.length > 0 && !walk.normFirst && <Op>)</Op>}
    </Formula>
  ),
};

const feed: Stage = {
  id: 'feed',
  short: 'Feed-forward',
  title: (walk) => (walk.parts.length && !walk.parts.some((part) => part.kind === 'feed_forward')
    ? 'No feed-forward layer' : 'Each token on its own'),
  missing: (walk) => (walk.parts.length ? null : because(walk, 'parts')),
  sentences: (walk) => {
    const { hidden, stream } = walk;
    const part = walk.parts.find(({ kind }) => kind === 'feed_forward');
    if (walk.parts.length && !part)
      return ['This block has attention only.', 'The next block continues with the stream as it is.'];
    const active = hidden ? hidden.reduce((sum, x) => sum + (x > 0.05 ? 1 : 0), 0) : 0;
    return [
      hidden
        ? `The feed-forward layer looks at ${token(walk)} alone: of its ${count(hidden.length, 'neuron')}, ${active.toLocaleString('en')} are above 0.05 here.`
        : `The feed-forward layer works on ${token(walk)} alone, without looking at other tokens.`,
      part && stream
        ? `What it finds, a vector of length ${length(part.values)}, is added too; the stream leaves the block with length ${length(stream)}.`
        : 'What it finds is added to the stream too.',
    ];
  },
  formula: (walk) => (
    <Formula label="x sub i becomes x sub i plus W 2 times an activation of W 1 x sub i">
      <Sub of={<Vec>x</Vec>} at={I} />
      <Op>←</Op>
      {walk.parts.length > 0 && !walk.normFirst && <><mi>norm</mi><Op>(</Op></>}
      <Sub of={<Vec>x</Vec>} at={I} />
      <Op>+</Op>
      <Sub of={<Var>W</Var>} at={<Num>2</Num>} />
      <Var>φ</Var>
      <Op>(</Op>
      <Sub of={<Var>W</Var>} at={<Num>1</Num>} />
      <Normed walk={walk}><Sub of={<Vec>x</Vec>} at={I} /></Normed>
      <Op>)</Op>
      {walk.parts.length > 0 && !walk.normFirst && <Op>)</Op>}
    </Formula>
  ),
};

const logits: Stage = {
  id: 'logits',
  short: 'Prediction',
  title: () => 'What the model predicts',
  missing: (walk) => (walk.top.length ? null : walk.recorded
    ? because(walk, 'output') : 'The capture has no prediction for this token.'),
  sentences: (walk) => {
    const { recorded, top } = walk;
    const after = recorded && recorded.blocks ? recorded.blocks - recorded.block - 1 : null;
    const first = after
      ? `${count(after, 'more block')} ${after === 1 ? 'does' : 'do'} the same; then the output matrix gives every possible answer a logit.`
      : 'After the last block, the output matrix gives every possible answer a logit.';
    if (!top.length) return [first, 'A softmax turns logits into probabilities.'];
    return [
      first,
      `A softmax turns logits into probabilities: ${quoted(top[0][0], 16)} is the likeliest, with ${wholePercent(top[0][2])}.`,
    ];
  },
  formula: () => (
    <Formula label="p equals the softmax of W vocabulary times x sub i">
      <Vec>p</Vec>
      <Op>=</Op>
      <mi>softmax</mi>
      <Op>(</Op>
      <Sub of={<Var>W</Var>} at={<Word>out</Word>} />
      <Sub of={<Vec>x</Vec>} at={I} />
      <Op>)</Op>
    </Formula>
  ),
};

export const STAGES: Stage[] = [
  embedding, vectors, scores, mask, softmax, values, heads, feed, logits,
];
