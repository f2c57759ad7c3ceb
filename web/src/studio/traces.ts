// Where a written word came from: weights on stretches of the text, as shades.

import type { Source } from './api-types';

export interface Piece {
  text: string;
  shade: number; // 0 to 1, the strongest place is 1
}

// The text cut where a shade begins or ends; overlapping sources add up.
export function shaded(text: string, sources: Source[]): Piece[] {
  const good = sources
    .map(({ start, end, weight }) => ({
      start: Math.max(0, Math.floor(start)),
      end: Math.min(text.length, Math.floor(end)),
      weight: Math.abs(weight),
    }))
    .filter(({ start, end, weight }) => start < end && weight > 0 && Number.isFinite(weight));
  if (!good.length) return text ? [{ text, shade: 0 }] : [];
  const heaviest = Math.max(...good.map(({ weight }) => weight)); // sums of the rest are finite
  const cuts = [...new Set([0, text.length, ...good.flatMap(({ start, end }) => [start, end])])];
  cuts.sort((one, other) => one - other);
  const pieces = cuts.slice(1).map((end, i) => {
    const here = good.filter((source) => source.start < end && source.end > cuts[i]);
    return {
      text: text.slice(cuts[i], end),
      shade: here.reduce((sum, { weight }) => sum + weight / heaviest, 0),
    };
  });
  const most = Math.max(...pieces.map(({ shade }) => shade));
  return merged(pieces.map((piece) => ({ ...piece, shade: piece.shade / most })));
}

function merged(pieces: Piece[]): Piece[] {
  const found: Piece[] = [];
  for (const piece of pieces) {
    const last = found.at(-1);
    if (last && last.shade === piece.shade) last.text += piece.text;
    else found.push({ ...piece });
  }
  return found;
}

// The strongest stretches in words, for who does not see shades: "“cat” 61%".
export function strongest(text: string, sources: Source[], most = 3): string[] {
  const total = sources.reduce((sum, { weight }) => sum + Math.max(0, weight), 0);
  const byText = new Map<string, number>();
  for (const { start, end, weight } of sources) {
    const said = text.slice(start, end).trim();
    if (said && weight > 0) byText.set(said, (byText.get(said) ?? 0) + weight);
  }
  return [...byText]
    .sort(([, one], [, other]) => other - one)
    .slice(0, most)
    .map(([said, weight]) => `“${said}” ${Math.round((100 * weight) / total)}%`);
}
