// The sources of a generated word: weights on spans of the text, shown as shades.

import type { WordSource } from './api-types';

export interface TextPiece {
  text: string;
  shade: number; // 0 to 1; the strongest piece has 1
}

// Cuts the text where a shade starts or ends; overlapping sources add up.
export function shadeText(text: string, sources: WordSource[]): TextPiece[] {
  const valid = sources
    .map(({ start, end, weight }) => ({
      start: Math.max(0, Math.floor(start)),
      end: Math.min(text.length, Math.floor(end)),
      weight: Math.abs(weight),
    }))
    .filter(({ start, end, weight }) => start < end && weight > 0 && Number.isFinite(weight));
  if (!valid.length) return text ? [{ text, shade: 0 }] : [];
  const heaviest = Math.max(...valid.map(({ weight }) => weight)); // dividing by it keeps sums finite
  const cuts = [...new Set([0, text.length, ...valid.flatMap(({ start, end }) => [start, end])])];
  cuts.sort((one, other) => one - other);
  const pieces = cuts.slice(1).map((end, i) => {
    const here = valid.filter((source) => source.start < end && source.end > cuts[i]);
    return {
      text: text.slice(cuts[i], end),
      shade: here.reduce((sum, { weight }) => sum + weight / heaviest, 0),
    };
  });
  const most = Math.max(...pieces.map(({ shade }) => shade));
  return mergeEqual(pieces.map((piece) => ({ ...piece, shade: piece.shade / most })));
}

function mergeEqual(pieces: TextPiece[]): TextPiece[] {
  const merged: TextPiece[] = [];
  for (const piece of pieces) {
    const last = merged.at(-1);
    if (last && last.shade === piece.shade) last.text += piece.text;
    else merged.push({ ...piece });
  }
  return merged;
}

// The strongest sources as text, such as "“cat” 61%", for readers who cannot see shades.
export function strongestSources(text: string, sources: WordSource[], most = 3): string[] {
  const total = sources.reduce((sum, { weight }) => sum + Math.max(0, weight), 0);
  const byText = new Map<string, number>();
  for (const { start, end, weight } of sources) {
    const phrase = text.slice(start, end).trim();
    if (phrase && weight > 0) byText.set(phrase, (byText.get(phrase) ?? 0) + weight);
  }
  return [...byText]
    .sort(([, one], [, other]) => other - one)
    .slice(0, most)
    .map(([phrase, weight]) => `“${phrase}” ${Math.round((100 * weight) / total)}%`);
}
