// Colors in OKLab, where equal steps look equal. Conversion after Björn Ottosson.

export type Color = [number, number, number]; // lightness, green-red, blue-yellow

export function oklab(hex: string): Color {
  const [r, g, b] = [1, 3, 5].map((i) => linear(parseInt(hex.slice(i, i + 2), 16) / 255));
  const l = Math.cbrt(0.4122214708 * r + 0.5363325363 * g + 0.0514459929 * b);
  const m = Math.cbrt(0.2119034982 * r + 0.6806995451 * g + 0.1073969566 * b);
  const s = Math.cbrt(0.0883024619 * r + 0.2817188376 * g + 0.6299787005 * b);
  return [
    0.2104542553 * l + 0.793617785 * m - 0.0040720468 * s,
    1.9779984951 * l - 2.428592205 * m + 0.4505937099 * s,
    0.0259040371 * l + 0.7827717662 * m - 0.808675766 * s,
  ];
}

export function rgb([lightness, a, b]: Color): [number, number, number] {
  const l = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3;
  const m = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3;
  const s = (lightness - 0.0894841775 * a - 1.291485548 * b) ** 3;
  return [
    byte(4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s),
    byte(-1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s),
    byte(-0.0041960863 * l - 0.7034186147 * m + 1.707614701 * s),
  ];
}

export const LEVELS = 255; // odd, so that there is a middle level for 0

// LEVELS colors, interpolated between the given ones at equal distances.
export function ramp(stops: Color[]): Uint8Array {
  const colors = new Uint8Array(LEVELS * 3);
  for (let i = 0; i < LEVELS; i += 1) {
    const position = (i / (LEVELS - 1)) * (stops.length - 1);
    const first = Math.min(Math.floor(position), stops.length - 2);
    const fraction = position - first;
    const mixed = stops[first].map((x, axis) => x + (stops[first + 1][axis] - x) * fraction);
    colors.set(rgb(mixed as Color), i * 3);
  }
  return colors;
}

// The contrast ratio of two colors by WCAG, from 1 to 21.
export function contrast(one: string, other: string): number {
  const [light, dark] = [luminance(one), luminance(other)].sort((x, y) => y - x);
  return (light + 0.05) / (dark + 0.05);
}

function luminance(hex: string): number {
  const [r, g, b] = [1, 3, 5].map((i) => linear(parseInt(hex.slice(i, i + 2), 16) / 255));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

function linear(x: number): number {
  return x <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4;
}

function byte(x: number): number {
  const bounded = Math.max(0, Math.min(1, x));
  const curved = bounded <= 0.0031308 ? bounded * 12.92 : 1.055 * bounded ** (1 / 2.4) - 0.055;
  return Math.round(curved * 255);
}
