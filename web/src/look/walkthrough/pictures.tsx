// The pictures of the walkthrough: vectors as strips of colored cells, keys as rows with bars.

import { useEffect, useRef, useState } from 'preact/hooks';
import { count, inCell, isolate, number, sensible, short, whole } from '../../shared/readable-text';
import { LEVELS } from '../../shared/color';
import type { Theme } from '../../shared/theme';
import { maxAbs } from '../prepare-weights';
import { vectorNorm } from '../views/attention-scores';
import type { Token } from '../capture-format';

export const TokenText = ({ token, limit }: { token: Token; limit?: number }) => (
  <span class="token" title={whole(token.text)}>
    {isolate(short(token.text, limit ?? 16))}
  </span>
);

interface StripProps {
  values: Float32Array;
  theme: Theme;
  name?: string;
  note?: string; // instead of the length
  largest?: number; // value of the strongest color; the largest one of the strip if missing
  thin?: boolean;
}

// A few huge numbers, which residual streams have, must not hide all others.
const usualSize = (values: Float32Array): number =>
  Math.min(maxAbs(values), (3 * vectorNorm(values)) / Math.sqrt(values.length));

// One cell for each number: blue above 0, orange below. The number under the pointer is shown.
export function Strip({ values, theme, name, note, largest, thin }: StripProps) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const [pointed, setPointed] = useState<number | null>(null);
  useEffect(() => {
    const context = canvas.current?.getContext('2d');
    if (!context || !values.length) return;
    const image = context.createImageData(values.length, 1);
    const scale = largest ?? usualSize(values);
    for (let i = 0; i < values.length; i += 1) {
      const share = scale > 0 ? Math.max(-1, Math.min(1, values[i] / scale)) : 0;
      const level = Math.round(((share + 1) / 2) * (LEVELS - 1));
      image.data.set(theme.diverging.subarray(level * 3, level * 3 + 3), i * 4);
      image.data[i * 4 + 3] = 255;
    }
    context.putImageData(image, 0, 0);
  }, [values, theme, largest]);
  const length = `length ${number(vectorNorm(values), 2)}`;
  const label = `${name ?? 'vector'}: ${count(values.length, 'number')}, ${length}`;
  return (
    <span class={thin ? 'strip thin' : 'strip'}>
      {name !== undefined && (
        <span class="strip-name">
          <b>{name}</b>
          <span class="dim number">
            {pointed === null
              ? (note ?? `${count(values.length, 'number')}, ${length}`)
              : `number ${pointed}: ${number(values[pointed], 3)}`}
          </span>
        </span>
      )}
      <canvas
        ref={canvas}
        width={Math.max(1, values.length)}
        height={1}
        role="img"
        aria-label={label}
        onPointerMove={(event) => {
          const box = event.currentTarget.getBoundingClientRect();
          const share = (event.clientX - box.left) / box.width;
          setPointed(Math.max(0, Math.min(values.length - 1, Math.floor(share * values.length))));
        }}
        onPointerLeave={() => setPointed(null)}
      />
    </span>
  );
}

export interface KeyRow {
  key: number;
  token: Token;
  value: number | null; // length of the bar; null for none
  text: string; // beside the bar
  mark?: number | null; // a small mark on the bar
  masked?: boolean;
  strip?: Float32Array | null;
}

interface KeyRowsProps {
  rows: KeyRow[];
  all: number; // how many keys there are
  query: number | null; // the query's own key
  chosen: number;
  choose: (key: number) => void;
  theme: Theme;
  head: [string, string]; // names of the columns
  stripLargest?: number;
}

// The same rows in the steps from scores to values: their bars grow and shrink between them.
export function KeyRows(props: KeyRowsProps) {
  const { rows, all, query, chosen, choose, theme, head, stripLargest } = props;
  const shown = rows.flatMap(({ value, mark, masked }) =>
    masked ? [] : [value ?? 0, mark ?? 0],
  );
  const [low, high] = [Math.min(0, ...shown), Math.max(0, ...shown)];
  const span = high - low || 1;
  const place = (value: number): number => ((value - low) / span) * 100;
  const withStrips = rows.some(({ strip }) => strip);
  const left = all - rows.length;
  return (
    <div class={withStrips ? 'key-rows with-strips' : 'key-rows'}>
      <div class="key-head dim">
        <span>{head[0]}</span>
        <span>{head[1]}</span>
      </div>
      {rows.map(({ key, token, value, text, mark, masked, strip }) => (
        <button
          key={key}
          type="button"
          class={`key-row${masked ? ' masked' : ''}`}
          aria-pressed={key === chosen}
          aria-label={`Key ${key} ${inCell(token.text)}: ${text}`}
          onClick={() => choose(key)}
        >
          <span class="key-token">
            <TokenText token={token} />
            {key === query && <small class="dim"> itself</small>}
          </span>
          <span class="track">
            <i
              class={value !== null && value < 0 ? 'bar negative' : 'bar'}
              style={{
                left: `${place(Math.min(0, masked ? 0 : (value ?? 0)))}%`,
                width: `${masked ? 0 : (Math.abs(value ?? 0) / span) * 100}%`,
              }}
            />
            {mark !== undefined && mark !== null && !masked && (
              <i class="mark" style={{ left: `${place(mark)}%` }} />
            )}
          </span>
          <span class="number key-number">{text}</span>
          {withStrips && (
            <span class="key-strip">
              {strip && <Strip thin values={strip} theme={theme} largest={stripLargest} />}
            </span>
          )}
        </button>
      ))}
      {left > 0 && (
        <p class="dim small">
          {count(left, 'more key')} with smaller weights {left === 1 ? 'is' : 'are'} not listed.
        </p>
      )}
    </div>
  );
}

interface PredictionProps {
  top: [string, number | null, number][];
}

export function Predictions({ top }: PredictionProps) {
  const withLogits = top.some(([, logit]) => logit !== null);
  const most = Math.max(1e-9, ...top.map(([, , share]) => share));
  return (
    <table class="predictions">
      <thead>
        <tr>
          <th>answer</th>
          {withLogits && <th class="number">logit</th>}
          <th>probability</th>
        </tr>
      </thead>
      <tbody>
        {top.map(([text, logit, share], i) => (
          <tr key={i}>
            <td>
              <TokenText token={{ text, word: 0, special: false }} limit={20} />
            </td>
            {withLogits && <td class="number">{logit === null ? '' : number(logit, 2)}</td>}
            <td class="share">
              <span class="track">
                <i class="bar" style={{ left: '0%', width: `${(share / most) * 100}%` }} />
              </span>
              <span class="number">{sensible(share)}</span>
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}
