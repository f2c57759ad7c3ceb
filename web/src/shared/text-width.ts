// Measures texts and shortens them to a width, in the same way for canvas and SVG.

export const SANS = 'system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif';
export const MONO = 'ui-monospace, SFMono-Regular, Menlo, Consolas, "Noto Sans Mono", monospace';
const MAX_CACHED = 20000;

export function font(size: number, mono?: boolean, bold?: boolean): string {
  return `${bold ? '600 ' : ''}${size}px ${mono ? MONO : SANS}`;
}

export type Measure = (text: string, size: number, mono?: boolean, bold?: boolean) => number;

// Without a canvas, as in tests, every character is 0.6 of the font size wide.
export function createMeasure(context: CanvasRenderingContext2D | null): Measure {
  const cache = new Map<string, number>();
  let last = '';
  return (text, size, mono, bold) => {
    if (!context) return text.length * size * 0.6;
    const requested = font(100, mono, bold);
    const key = `${mono ? 1 : 0}${bold ? 1 : 0}${text}`;
    let width = cache.get(key);
    if (width === undefined) {
      if (requested !== last) context.font = last = requested;
      width = context.measureText(text).width / 100;
      if (cache.size > MAX_CACHED) cache.clear();
      cache.set(key, width);
    }
    return width * size;
  };
}

// Shortens a text to the width, with an ellipsis.
export function fitText(text: string, limit: number, width: (text: string) => number): string {
  if (width(text) <= limit) return text;
  const points = Array.from(text.slice(0, 400));
  let [low, high] = [0, points.length];
  while (low < high) {
    const middle = Math.ceil((low + high) / 2);
    if (width(`${points.slice(0, middle).join('')}…`) <= limit) low = middle;
    else high = middle - 1;
  }
  return low > 0 ? `${points.slice(0, low).join('').trimEnd()}…` : '…';
}
