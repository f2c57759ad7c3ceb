import { expect, test } from 'vitest';
import { contrast } from '../shared/color';
import { theme } from '../shared/theme';
import {
  cellAt,
  cellColor,
  valueColor,
  fitCellText,
  textColorOn,
  legendTexts,
  describeCell,
  colorScale,
  nextCell,
  formatCell,
} from './heatmap-colors';
import { readPlot, type Heatmap } from './plot-data';

const raw = (more: object = {}): object => ({
  kind: 'heatmap',
  x: 'norm',
  y: 'features',
  z: 'ratio',
  columns: ['1', '2', '4'],
  rows: ['16', '64'],
  values: [
    [0.25, 1, 8],
    [0, null, 'Infinity'],
  ],
  log: true,
  center: 1,
  names: [],
  texts: [],
  ...more,
});
const map = (more: object = {}): Heatmap => {
  const heatmap = readPlot(raw(more));
  if (!heatmap) throw new Error('no map');
  return heatmap as Heatmap;
};

test('other JSON and wrong shapes give no heatmap', () => {
  expect(readPlot({ ...raw(), kind: 'map' })).toBeNull();
  expect(readPlot(raw({ values: [[1, 2, 3]] }))).toBeNull();
  expect(readPlot(raw({ values: [[1, 2], [1, 2]] }))).toBeNull();
  expect(readPlot([])).toBeNull();
  expect(map().values).toEqual([
    [0.25, 1, 8],
    [0, null, Infinity],
  ]);
});

test('around a center, both directions have the same range, at most a factor of 10', () => {
  const scale = colorScale(map());
  expect(scale.scale.domain()[0]).toBeCloseTo(1 / 8, 12);
  expect(scale.scale.domain()[1]).toBeCloseTo(8, 12);
  expect(scale.scale(1)).toBeCloseTo(0.5, 12);
  expect(scale.scale(0.25)).toBeCloseTo((Math.log(0.25) + Math.log(8)) / (2 * Math.log(8)), 12);
  expect(scale.scale(0)).toBe(0);
  expect(scale.scale(Infinity)).toBe(1);
  const wide = colorScale(map({ values: [[1e-5, 1, 1e9], [1, 1, 1]] }));
  expect(wide.scale.domain()).toEqual([0.1, 10]);
});

test('without a center, the colors go from minimum to maximum', () => {
  const scale = colorScale(map({ log: false, center: null, values: [[2, 4, 6], [3, null, 10]] }));
  expect(scale.scale.domain()).toEqual([2, 10]);
  expect(scale.scale(4)).toBeCloseTo(0.25, 12);
  const alike = colorScale(map({ log: false, center: null, values: [[5, 5, 5], [5, 5, 5]] }));
  expect(alike.scale.domain()[0]).toBeLessThan(5);
  expect(alike.scale.domain()[1]).toBeGreaterThan(5);
  const empty = colorScale(map({ values: [[null, null, null], [null, null, null]] }));
  expect(empty.scale(1)).toBeGreaterThan(0);
});

test('better is blue and worse is orange, in both modes', () => {
  const scale = colorScale(map());
  for (const mode of ['light', 'dark'] as const) {
    const [low, high] = [0.13, 7.9].map((value) => valueColor(scale, value, mode));
    const blue = (hex: string): number => parseInt(hex.slice(5), 16) - parseInt(hex.slice(1, 3), 16);
    expect(blue(low)).toBeGreaterThan(40);
    expect(blue(high)).toBeLessThan(-40);
    expect(valueColor(scale, 1, mode)).toBe(theme(mode).color('page'));
    for (const value of [0.13, 0.3, 0.8, 1, 1.5, 3, 7.9]) {
      const ground = valueColor(scale, value, mode);
      expect(contrast(ground, textColorOn(ground))).toBeGreaterThan(4.4);
    }
  }
});

test('each name has its own color', () => {
  const named = map({ names: ['window', 'softmax'], values: [[0, 1, 0], [1, 1, null]] });
  const scale = colorScale(named);
  expect(cellColor(named, scale, 0, 'light')).toBe(theme('light').color('head0'));
  expect(cellColor(named, scale, 1, 'light')).toBe(theme('light').color('head1'));
  expect(cellColor(named, scale, null, 'light')).toBe(theme('light').color('card'));
  expect(formatCell(named, 1)).toBe('softmax');
  expect(formatCell(named, 7)).toBe('–');
  expect(fitCellText(named, 1, 7)).toBe('softmax');
  expect(fitCellText(named, 1, 6)).toBe('s'); // no other name begins like it
  expect(fitCellText(named, 1, 0)).toBe('');
  const alike = map({ names: ['favor', 'fourier'], values: [[0, 1, 0], [1, 1, null]] });
  expect(fitCellText(alike, 1, 4)).toBe('');
  expect(fitCellText(map(), 0.123456, 4)).toBe(''); // a part of a number is another number
  expect(fitCellText(map(), 0.123456, 5)).toBe('0.123');
});

test('keys move through the cells and stop at the edges', () => {
  const heatmap = map();
  expect(nextCell('ArrowRight', null, heatmap)).toEqual({ row: 0, column: 0 });
  expect(nextCell('ArrowRight', { row: 0, column: 2 }, heatmap)).toEqual({ row: 0, column: 2 });
  expect(nextCell('ArrowDown', { row: 0, column: 2 }, heatmap)).toEqual({ row: 1, column: 2 });
  expect(nextCell('ArrowUp', { row: 0, column: 2 }, heatmap)).toEqual({ row: 0, column: 2 });
  expect(nextCell('Home', { row: 1, column: 2 }, heatmap)).toEqual({ row: 1, column: 0 });
  expect(nextCell('PageUp', { row: 1, column: 2 }, heatmap)).toEqual({ row: 0, column: 2 });
  expect(nextCell('Escape', { row: 1, column: 2 }, heatmap)).toBeNull();
  expect(nextCell('toString', { row: 1, column: 2 }, heatmap)).toBeUndefined();
});

test('a position of the plot is a cell, and a cell is described', () => {
  const heatmap = map({ texts: [['a', 'b', 'c'], ['d', 'e', 'f']] });
  expect(cellAt(heatmap, 0.99, 0.51)).toEqual({ row: 1, column: 2 });
  expect(cellAt(heatmap, 1, 0.5)).toBeNull();
  expect(cellAt(heatmap, NaN, 0.5)).toBeNull();
  expect(describeCell(heatmap, { row: 0, column: 2 })).toBe('features 16, norm 4: 8; c');
  expect(describeCell(heatmap, { row: 1, column: 1 })).toBe('features 64, norm 2: –; e');
});

test('the legend has the ends and the center', () => {
  const stops = legendTexts(colorScale(map({ values: [[1e-5, 1, 1e9], [1, 1, 1]] })));
  expect(stops).toEqual(['≤ 0.1', '1', '≥ 10']);
  const plain = legendTexts(colorScale(map({ log: false, center: null, values: [[2, 4, 6], [3, null, 10]] })));
  expect(plain).toEqual(['2', '6', '10']);
});
