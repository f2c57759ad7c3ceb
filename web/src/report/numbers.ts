// Short numbers and axes with round ticks; the same as attnlab/charts/scales.py.

const HUGE = 1e300; // what lies beyond is drawn there, so that no difference overflows
const TINY = 1e-300;

// Four digits; a dash for what is not known.
export function short(value: number | null): string {
  return written(value, 4);
}

// For a readout: as many digits as a person can use.
export function long(value: number | null): string {
  return written(value, 7);
}

function written(value: number | null, digits: number): string {
  if (value === null || Number.isNaN(value)) return '–';
  if (!Number.isFinite(value)) return value > 0 ? '∞' : '−∞';
  const size = Math.abs(value);
  const sign = value < 0 ? '−' : '';
  if (size === 0) return '0';
  if (Number.isInteger(value) && size < 1e9) return sign + size.toLocaleString('en');
  if (size >= 1e-3 && size < 1e6) {
    const places = Math.max(0, digits - 1 - Math.floor(Math.log10(size)));
    const fixed = size.toLocaleString('en', { maximumFractionDigits: Math.min(places, 20) });
    return sign + fixed;
  }
  const [mantissa, exponent] = size.toExponential(digits - 1).split('e');
  const bare = mantissa.includes('.') ? mantissa.replace(/\.?0+$/, '') : mantissa;
  return `${sign}${bare}e${exponent.replace('+', '').replace('-', '−')}`;
}

export interface Axis {
  low: number;
  high: number;
  start: number;
  end: number;
  log: boolean;
}

// Where a value lies; what is beyond the ends lies at the ends.
export function placeOn(axis: Axis, value: number): number {
  const turn = axis.log ? Math.log10 : (x: number) => x;
  const bounded = Math.min(Math.max(value, axis.low), axis.high);
  const [low, high] = [turn(axis.low), turn(axis.high)];
  const share = (turn(bounded) / 2 - low / 2) / (high / 2 - low / 2); // halves cannot overflow
  return axis.start + share * (axis.end - axis.start);
}

export function drawable(value: number, log: boolean): boolean {
  return Number.isFinite(value) && (!log || value > 0);
}

// The ends of an axis that shows all values; where they hardly differ it is made wider.
export function extent(values: number[], log: boolean): [number, number] {
  let [low, high] = [Infinity, -Infinity];
  for (const value of values) {
    const bounded = Math.min(Math.max(value, log ? TINY : -HUGE), HUGE);
    low = Math.min(low, bounded);
    high = Math.max(high, bounded);
  }
  if (low > high) return log ? [0.1, 10] : [0, 1];
  const scale = Math.max(Math.abs(low), Math.abs(high));
  if (high - low > 1e-9 * scale && scale > TINY) return [low, high];
  if (log) return [Math.max(low / 3, TINY / 10), high * 3];
  return scale > TINY ? [low - scale / 10, high + scale / 10] : [0, 1]; // most that is 0 is a share or an error
}

// A little room beyond the ends, so that no point lies on the frame.
export function roomy([low, high]: [number, number], log: boolean, share = 0.04): [number, number] {
  if (log) {
    const by = 10 ** (share * (Math.log10(high) - Math.log10(low)));
    return [Math.max(low / by, TINY / 1e6), Math.min(high * by, HUGE * 1e6)];
  }
  const by = (high / 2 - low / 2) * 2 * share;
  const room = Number.isFinite(by) ? by : 0;
  return [low >= 0 && low - room < 0 ? Math.min(low, 0) : low - room, high + room];
}

export interface Tick {
  value: number;
  text: string;
}

export function ticksOf(axis: Axis, count = 5): Tick[] {
  if (!axis.log) {
    const few = linearTicks(axis.low, axis.high, count);
    return texts(few.length < 3 ? linearTicks(axis.low, axis.high, count + 3) : few);
  }
  const powers = powerTicks(axis.low, axis.high, count);
  if (powers.length > 1) return powers.map((value) => ({ value, text: powerText(value) }));
  const some = roundTicks(axis.low, axis.high);
  if (some.length > 1) return some.map((value) => ({ value, text: short(value) }));
  return texts(linearTicks(axis.low, axis.high, 3).filter((value) => value > 0));
}

export function linearTicks(low: number, high: number, count: number): number[] {
  const rough = high / count - low / count;
  if (!(rough > 0) || !Number.isFinite(rough)) return [low];
  const power = 10 ** Math.floor(Math.log10(rough));
  const steps = [1, 2, 2.5, 5, 10, 20].map((each) => each * power);
  const step = steps.find((each) => each >= rough * 0.999) ?? rough;
  const [first, last] = [Math.ceil(low / step - 1e-6), Math.floor(high / step + 1e-6)];
  return Array.from({ length: Math.min(last - first + 1, 50) }, (_, i) => (first + i) * step);
}

function powerTicks(low: number, high: number, count: number): number[] {
  const first = Math.ceil(Math.log10(low) - 1e-9);
  const last = Math.floor(Math.log10(high) + 1e-9);
  const step = Math.floor((last - first) / (count + 1)) + 1;
  const found: number[] = [];
  for (let i = first; i <= last; i += step) found.push(Number(`1e${i}`));
  return found;
}

function roundTicks(low: number, high: number): number[] {
  const first = Math.floor(Math.log10(low));
  const found: number[] = [];
  for (let i = first; i <= first + 2; i += 1)
    for (const each of [1, 2, 5]) found.push(Number(`${each}e${i}`));
  return found.filter((each) => each >= low && each <= high);
}

const RAISED: Record<string, string> = { '-': '⁻' };
Array.from('⁰¹²³⁴⁵⁶⁷⁸⁹').forEach((sign, digit) => (RAISED[digit] = sign));

// 0.01, 1, 100, 10,000; then 10⁵
function powerText(value: number): string {
  const power = Math.round(Math.log10(value));
  if (power >= -3 && power <= 4) return short(value);
  return `10${Array.from(String(power), (sign) => RAISED[sign]).join('')}`;
}

// All with the same number of decimals: as few as tell neighbours apart.
function texts(values: number[]): Tick[] {
  const most = Math.max(...values.map(Math.abs));
  if (!(most >= 1e-3 && most < 1e6) || values.length < 2)
    return values.map((value) => ({ value, text: short(value) }));
  const near = Math.min(...values.slice(1).map((value, i) => value - values[i])) / 9;
  for (let places = 0; places < 16; places += 1) {
    if (values.every((value) => Math.abs(Number(value.toFixed(places)) - value) < near))
      return values.map((value) => ({ value, text: fixed(value, places) }));
  }
  return values.map((value) => ({ value, text: short(value) }));
}

export function fixed(value: number, places: number): string {
  const rounded = Number(value.toFixed(places));
  const size = Math.abs(rounded).toLocaleString('en', {
    minimumFractionDigits: places,
    maximumFractionDigits: places,
  });
  return (rounded < 0 ? '−' : '') + size;
}
