// What a step of the walkthrough shows beside its sentences.

import { number, quoted, sensible, whole } from '../../shared/readable-text';
import type { Theme } from '../../shared/theme';
import type { Choices } from '../choices';
import { headName, headTitle } from '../names';
import { maxAbs } from '../prepare-weights';
import { vectorNorm } from '../views/attention-scores';
import { KeyRows, Predictions, Strip, type KeyRow } from './pictures';
import type { StageId } from './stages';
import { listedKeys, weightedSum, weightsAt, type Walk } from './walk-data';

interface Props {
  walk: Walk;
  stage: StageId;
  temperature: number;
  theme: Theme;
  change: (changes: Partial<Choices>) => void;
}

export function StagePicture(props: Props) {
  const { walk, stage } = props;
  if (['scores', 'mask', 'softmax', 'values'].includes(stage)) return <KeySteps {...props} />;
  if (stage === 'embedding') return <Beginning {...props} />;
  if (stage === 'vectors') return <Vectors {...props} />;
  if (stage === 'heads') return <Heads {...props} />;
  if (stage === 'feed') return <FeedForward {...props} />;
  return walk.top.length ? <Predictions top={walk.top} /> : null;
}

function Beginning({ walk, theme }: Props) {
  const { embedding, input, queries, query, recorded } = walk;
  const name = quoted(queries[query].text, 16);
  const later = recorded ? recorded.block > 0 : false;
  return (
    <>
      {embedding && <Strip values={embedding} theme={theme} name={`${name}, embedded`} />}
      {input && (later || !embedding) && (
        <Strip values={input} theme={theme} name="what this layer reads" />
      )}
      {(embedding ?? input) && <Legend theme={theme} />}
    </>
  );
}

// What the colors of strips mean.
function Legend({ theme }: { theme: Theme }) {
  return (
    <p class="dim small legend-line">
      <i style={{ background: theme.color('s1') }} /> below 0 <i style={{ background: theme.color('s0') }} />{' '}
      above 0; the stronger the color, the larger the number.
    </p>
  );
}

function Vectors({ walk, theme }: Props) {
  const { q, key, keys, queries, query } = walk;
  const [k, v] = [walk.keyVector(key), walk.valueVector(key)];
  const name = quoted(keys[key].text, 16);
  return (
    <>
      {q && <Strip values={q} theme={theme} name={`query of ${quoted(queries[query].text, 16)}`} />}
      {k && <Strip values={k} theme={theme} name={`key of ${name}`} />}
      {v && <Strip values={v} theme={theme} name={`value of ${name}`} />}
      {(q ?? k ?? v) && <Legend theme={theme} />}
    </>
  );
}

// A number for a narrow column.
const compact = (value: number): string =>
  value !== 0 && Math.abs(value) < 0.0005 ? '≈0' : sensible(value);

// Scores, mask, weights and values: the same rows with other bars.
function KeySteps({ walk, stage, temperature, theme, change }: Props) {
  const { keys, allowed, scores, dots, isSoftmax, weights, norms, layer } = walk;
  const atTemperature = weightsAt(walk, temperature) ?? weights;
  const shownScores = isSoftmax ? scores : dots;
  const early = stage === 'scores' || stage === 'mask';
  const ready = !early || shownScores !== null;
  const listed = listedKeys(walk);
  const rows = listed.map((key): KeyRow => {
    const masked = !allowed[key] && stage !== 'scores';
    const base = { key, token: keys[key], masked };
    if (early) {
      const value = shownScores ? shownScores[key] : null;
      const text = masked ? (isSoftmax ? '−∞' : '0') : value === null ? (allowed[key] ? 'seen' : '') : compact(value);
      return { ...base, value, text };
    }
    if (stage === 'softmax')
      return {
        ...base, value: atTemperature[key], text: compact(atTemperature[key]),
        mark: temperature === 1 ? null : weights[key],
      };
    const v = walk.valueVector(key);
    const brought = norms ? Math.abs(weights[key]) * norms[key] : null;
    return {
      ...base, value: brought ?? weights[key], text: masked ? '0' : compact(brought ?? weights[key]),
      strip: v && !masked ? v.map((x) => x * weights[key]) : null,
    };
  });
  const names: Record<string, [string, string]> = {
    scores: ['key', isSoftmax ? 'score' : 'product of query and key'],
    mask: ['key', isSoftmax ? 'score' : 'product of query and key'],
    softmax: ['key', 'weight'],
    values: ['key', norms ? 'weight × length of the value' : 'weight'],
  };
  const largest = Math.max(1e-9, ...rows.map(({ strip }) => (strip ? maxAbs(strip) : 0)));
  if (!ready && stage === 'scores') return null;
  return (
    <>
      <KeyRows
        {...{ rows, theme }}
        all={keys.length}
        query={layer.kind === 'self' ? walk.query : null}
        chosen={walk.key}
        choose={(key) => change({ key })}
        head={names[stage]}
        stripLargest={largest}
      />
      {stage === 'scores' && <Products walk={walk} theme={theme} />}
      {stage === 'values' && <ValueSum walk={walk} theme={theme} />}
      {(stage === 'softmax' || stage === 'values') && isSoftmax && !walk.explained && scores && (
        <p class="small warn-line">
          The softmax of the scores is not the weight that the model used: it does something more
          with its scores, such as a cap or a sink.
        </p>
      )}
    </>
  );
}

// The chosen key element by element.
function Products({ walk, theme }: { walk: Walk; theme: Theme }) {
  const { q, key, keys, dots } = walk;
  const k = walk.keyVector(key);
  if (!q || !k || q.length !== k.length || !dots) return null;
  return (
    <Strip
      values={q.map((x, d) => x * k[d])}
      theme={theme}
      name={`query × key of ${quoted(keys[key].text, 16)}`}
      note={`sum ${number(dots[key], 2)}`}
    />
  );
}

function ValueSum({ walk, theme }: { walk: Walk; theme: Theme }) {
  const { keys, weights, outputs, head, layer } = walk;
  const first = walk.valueVector(0);
  const own = outputs?.[head] ?? null;
  if (first) {
    const rows = new Float32Array(keys.length * first.length);
    keys.forEach((_, key) => rows.set(walk.valueVector(key) ?? [], key * first.length));
    return (
      <Strip
        values={weightedSum(weights, rows)} theme={theme}
        name={`sum of all: output of head ${headName(layer, head)}`}
      />
    );
  }
  return own && <Strip values={own} theme={theme} name={`output of head ${headName(layer, head)}`} />;
}

const MAX_HEADS = 16;

function Heads({ walk, theme, change }: Props) {
  const { outputs, layer, head, input, parts, stream, normFirst } = walk;
  const own = parts.find((part) => part.kind === layer.kind);
  const most = outputs ? Math.max(1e-9, ...outputs.map(maxAbs)) : 1;
  const listed = (outputs ?? []).map((values, i) => ({ values, i })).slice(0, MAX_HEADS);
  if (outputs && head >= MAX_HEADS) listed[MAX_HEADS - 1] = { values: outputs[head], i: head };
  return (
    <>
      {outputs && (
        <div class="head-rows">
          {listed.map(({ values, i }) => (
            <button
              key={i} type="button" class="head-row" aria-pressed={i === head}
              title={headTitle(layer, i)} onClick={() => change({ heads: [i] })}
            >
              <span>head {headName(layer, i)}</span>
              <Strip thin values={values} theme={theme} largest={most} />
              <span class="number">{number(vectorNorm(values), 2)}</span>
            </button>
          ))}
          {outputs.length > listed.length && (
            <p class="dim small">{outputs.length - listed.length} more heads are not listed.</p>
          )}
        </div>
      )}
      {own && <Strip values={own.values} theme={theme} name="all heads, mixed by the output matrix" />}
      {own && input && normFirst && (
        <Strip values={afterAttention(walk)} theme={theme} name="residual stream with it" />
      )}
      {!own && stream && <p class="dim small">{whole(walk.recorded?.reasons.parts ?? '')}</p>}
    </>
  );
}

// The stream after the parts up to this layer's.
function afterAttention({ input, parts, layer }: Walk): Float32Array {
  const sum = Float32Array.from(input ?? []);
  for (const { kind, values } of parts) {
    for (let d = 0; d < sum.length; d += 1) sum[d] += values[d];
    if (kind === layer.kind) break;
  }
  return sum;
}

function FeedForward({ walk, theme }: Props) {
  const { hidden, parts, stream } = walk;
  const part = parts.find(({ kind }) => kind === 'feed_forward');
  return (
    <>
      {hidden && <Strip values={hidden} theme={theme} name="neurons, after their activation" />}
      {part && <Strip values={part.values} theme={theme} name="what it adds" />}
      {stream && <Strip values={stream} theme={theme} name="residual stream after the block" />}
    </>
  );
}
