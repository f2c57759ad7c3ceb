// Formats numbers in the same way as attnlab/_confidence_intervals.py.

// Four digits; a dash for an unknown value.
export function formatShort(value: number | null): string {
  return formatDigits(value, 4);
}

// Seven digits, for a readout.
export function formatLong(value: number | null): string {
  return formatDigits(value, 7);
}

// Three digits, for a cell.
export function formatBrief(value: number | null): string {
  return formatShort(value !== null && Number.isFinite(value) ? Number(value.toPrecision(3)) : value);
}

// A percentage with one decimal.
export function formatPercent(value: number | null): string {
  if (value === null || !Number.isFinite(value)) return formatShort(value);
  return `${formatFixed(100 * value, 1).replace(/\.0$/, '')}%`;
}

export function formatFixed(value: number, places: number): string {
  const rounded = Number(value.toFixed(places));
  const size = Math.abs(rounded).toLocaleString('en', {
    minimumFractionDigits: places,
    maximumFractionDigits: places,
  });
  return (rounded < 0 ? '−' : '') + size;
}

function formatDigits(value: number | null, digits: number): string {
  if (value === null || Number.isNaN(value)) return '–';
  if (!Number.isFinite(value)) return value > 0 ? '∞' : '−∞';
  const size = Math.abs(value);
  const sign = value < 0 ? '−' : '';
  if (size === 0) return '0';
  if (Number.isInteger(value) && size < 1e9) return sign + size.toLocaleString('en');
  if (size >= 1e-3 && size < 1e6) {
    const places = Math.max(0, digits - 1 - Math.floor(Math.log10(size)));
    return sign + size.toLocaleString('en', { maximumFractionDigits: Math.min(places, 20) });
  }
  const [mantissa, exponent] = size.toExponential(digits - 1).split('e');
  const bare = mantissa.includes('.') ? mantissa.replace(/\.?0+$/, '') : mantissa;
  return `${sign}${bare}e${exponent.replace('+', '').replace('-', '−')}`;
}
