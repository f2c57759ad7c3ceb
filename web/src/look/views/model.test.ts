import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Capture } from '../capture';
import type { LayerInfo, Pattern, Side } from '../capture-format';
import type { Mark } from '../view';
import { ArrayBlocks, loadFrame, makeLayer, openCapture, layoutProblems, makeSequence, makeSide,
  drawingTexts } from '../../../test-support/view-captures';
import { model } from './model';
import { layOutModel } from './model-layout';
import { groupByLayer, groupByPattern } from './model-head-groups';

const makePattern = (label: string, score: number): Pattern => ({
  label,
  scores: { 'previous token': 0.1, uniform: 0.2, ...(label === '' ? {} : { [label]: score }) },
});

function capture(
  patterns: Pattern[][], options: (index: number) => Partial<LayerInfo> = () => ({}),
  rest: Partial<Side> = {},
): Capture {
  const blocks = new ArrayBlocks();
  const layers = patterns.map((each, i) => makeLayer(
    blocks, [each.length, 2, 2], new Float32Array(each.length * 4).fill(0.5),
    { name: `block.${i}`, patterns: each, ...options(i) }));
  return openCapture(blocks, [makeSide(blocks, [makeSequence('t', ['a', 'b'])], layers, rest)]);
}

const THREE = [
  [makePattern('previous token', 0.9), makePattern('', 0)],
  [makePattern('uniform', 0.5), makePattern('previous token', 0.95)],
  [makePattern('', 0), makePattern('previous token', 0.7)],
];

function makeModel(layers: number, heads: number): Capture {
  const one = Array.from({ length: heads }, () => makePattern('uniform', 0.5));
  return capture(Array.from({ length: layers }, () => one));
}

const rasters = (marks: Mark[]) => marks.flatMap((mark) => (mark.kind === 'raster' ? [mark] : []));

describe('the model view', () => {
  it('has a map for each head, and a click opens it in the matrix view', async () => {
    const drawing = model.draw(await loadFrame(model, capture(THREE)));
    expect(rasters(drawing.marks)).toHaveLength(6);
    const { label, pick, toggles } = drawing.targets[3];
    expect(label).toBe('Layer 1, head 1: previous token 0.95');
    expect(pick).toEqual({ view: 'matrix', layer: 1, heads: [1], mean: false });
    expect(toggles).toEqual({ set: 'heads', index: 1, layer: 1 });
    const named = ['▸ Layer 0', 'Layer 2', 'block.2', '0.95'];
    expect(drawingTexts(drawing)).toEqual(expect.arrayContaining(named));
    expect(drawing.summary).toBe('6 heads in 3 layers of a model, by layer: '
      + '3 previous token, 1 uniform, 2 without a pattern.');
  });

  it('outlines the selected heads and labels them', async () => {
    const accents = async (choices: object): Promise<number> => (
      model.draw(await loadFrame(model, capture(THREE), choices)).marks
        .filter((mark) => mark.kind === 'rect' && mark.stroke === 'accent').length);
    expect(await accents({ layer: 1, heads: [] })).toBe(0);
    expect(await accents({ layer: 1, heads: [0] })).toBe(2);
    expect(await accents({ layer: 1, heads: [0, 1] })).toBe(4);
    const { targets } = model.draw(await loadFrame(model, capture(THREE),
      { layer: 1, heads: [0] }));
    const selected = targets.flatMap(({ label }, i) => (label.endsWith(', selected') ? [i] : []));
    expect(selected).toEqual([2]);
  });

  it('groups by pattern: the most common pattern and the clearest head come first', async () => {
    const groups = groupByPattern(capture(THREE).header.sides[0]);
    expect(groups.map(({ title, detail }) => `${title}: ${detail}`)).toEqual([
      'Previous token: 3 heads', 'Uniform: 1 head', 'No pattern stands out: 2 heads']);
    const order = groups[0].entries.map(({ layer: of, number }) => [of, number]);
    expect(order).toEqual([[1, 1], [0, 0], [2, 1]]);
    const drawing = model.draw(await loadFrame(model, capture(THREE), { order: 'pattern' }));
    expect(drawingTexts(drawing)).toEqual(expect.arrayContaining(['1·1', '0·0', '2·1']));
    expect(drawing.targets[0].pick).toMatchObject({ layer: 1, heads: [1] });
  });

  it('marks heads that were not captured', async () => {
    const file = capture(THREE, () => ({ heads: [1, 4], all_heads: 5 }));
    const drawing = model.draw(await loadFrame(model, file));
    expect(drawingTexts(drawing).filter((text) => text === 'captured')).toHaveLength(9);
    expect(drawing.targets).toHaveLength(6);
    expect(drawing.targets[1].pick).toMatchObject({ layer: 0, heads: [1] });
    expect(drawing.targets[1].label).toContain('head 4');
    expect(drawing.summary).toContain('9 of 15 not captured');
    const many = capture(THREE, () => ({ heads: [1, 4], all_heads: 1 << 20 }));
    expect(groupByLayer(many.header.sides[0])[0].entries).toHaveLength(2);
  });

  it('has ordered sections for encoder, decoder and cross-attention', async () => {
    const kinds = [['encoder', 'self'], ['decoder', 'self'], ['decoder', 'cross']] as const;
    const four = [...THREE, THREE[1]];
    const file = capture(four, (i) => ({ stack: kinds[i % 3][0], kind: kinds[i % 3][1] }));
    const drawing = model.draw(await loadFrame(model, file));
    expect(drawingTexts(drawing).filter((text) => text.endsWith('-attention'))).toEqual([
      'Encoder, self-attention', 'Decoder, self-attention', 'Decoder, cross-attention']);
    expect(groupByLayer(file.header.sides[0]).map((group) => group.layer)).toEqual([0, 3, 1, 2]);
    const grouped = model.draw(await loadFrame(model, file, { order: 'pattern' }));
    expect(drawingTexts(grouped)).toEqual(expect.arrayContaining(['e0·0', 'd1·1', 'c2·1', 'e3·1']));
    expect(drawingTexts(grouped).join(' ')).toContain('c: cross-attention');
    expect(layoutProblems(drawing)).toEqual([]);
  });

  it('shows all scores beside those of an untrained model', async () => {
    const control = THREE.map((each) => each.map(() => makePattern('uniform', 0.33)));
    const file = capture(THREE, () => ({}), { control });
    const { targets } = model.draw(await loadFrame(model, file));
    expect(targets[3].tooltip?.()).toEqual([
      'Layer 1, head 1: previous token', 'block.1, softmax',
      'previous token 0.95 (untrained 0.10)', 'uniform 0.20 (untrained 0.33)']);
    const table = model.table(await loadFrame(model, file));
    expect(table.header.slice(6)).toEqual([
      'pattern', 'previous token', 'uniform', 'previous token, untrained', 'uniform, untrained']);
    expect(table.rows[3].slice(5)).toEqual([1, 'previous token', 0.95, 0.2, 0.1, 0.33]);
    expect(model.table(await loadFrame(model, capture(THREE))).header).toHaveLength(9);
  });
});

describe('the colors', () => {
  it('show the fraction that a byte encodes', async () => {
    const blocks = new ArrayBlocks();
    const one = makeLayer(blocks, [1, 2, 2], [1, 0, 0, 1]);
    const small = blocks.bytes([1, 2, 2], [0, 51, 102, 255]); // shares 0, 0.04, 0.16 and 1
    const file = openCapture(blocks,
      [makeSide(blocks, [makeSequence('t', ['a', 'b'])], [one], { small })]);
    const colors = async (scale: 'linear' | 'sqrt' | 'log'): Promise<number[]> => (
      Array.from(rasters(model.draw(await loadFrame(model, file, { scale })).marks)[0].values));
    const [linear, sqrt] = [await colors('linear'), await colors('sqrt')];
    linear.forEach((value, i) => expect(value).toBeCloseTo([0, 0.04, 0.16, 1][i], 6));
    sqrt.forEach((value, i) => expect(value).toBeCloseTo([0, 0.2, 0.4, 1][i], 6));
    expect((await colors('log'))[1]).toBeCloseTo(1 + Math.log10(0.04) / 4, 6);
  });

  it('are cached, so that they are painted once', async () => {
    const file = capture(THREE);
    const [one, other] = [await loadFrame(model, file), await loadFrame(model, file, { layer: 2 })];
    rasters(model.draw(one).marks).forEach(({ values }, i) => (
      expect(rasters(model.draw(other).marks)[i].values).toBe(values)));
  });
});

describe('the layout', () => {
  it('stays inside without overlap, for any number of heads and any width', async () => {
    await fc.assert(fc.asyncProperty(
      fc.integer({ min: 1, max: 30 }), fc.integer({ min: 1, max: 16 }),
      fc.integer({ min: 320, max: 2560 }), fc.constantFrom('layer', 'pattern'),
      async (layers, heads, width, order) => {
        const choices = { order } as { order: 'layer' | 'pattern' };
        const drawing = model.draw(await loadFrame(model, makeModel(layers, heads), choices,
          width));
        expect(layoutProblems(drawing)).toEqual([]);
        const maps = rasters(drawing.marks);
        expect(maps).toHaveLength(layers * heads);
        expect(maps[0].w).toBeGreaterThanOrEqual(60);
        const rows = new Map<number, number[]>();
        maps.forEach(({ x, y }) => rows.set(y, [...(rows.get(y) ?? []), x]));
        const tops = [...rows.keys()].sort((one, other) => one - other);
        tops.slice(1).forEach((y, i) => expect(y - tops[i]).toBeGreaterThanOrEqual(maps[0].h + 14));
        rows.forEach((row) => row.sort((one, other) => one - other).slice(1)
          .forEach((x, i) => expect(x - row[i]).toBeGreaterThan(maps[0].w)));
      }), { numRuns: 30 });
  });

  it('fits everything on the page if possible, with maps as large as possible', () => {
    const groups = groupByLayer(makeModel(6, 12).header.sides[0]);
    const tall = layOutModel(groups, 34, 1280, 1400);
    expect(tall.height).toBeLessThanOrEqual(1400);
    expect(tall.cell).toBeGreaterThan(80);
    expect(layOutModel(groups, 34, 1280, 400).height).toBeGreaterThan(400);
    expect(layOutModel(groupByLayer(makeModel(1, 1).header.sides[0]), 34, 1280,
      700).cell).toBe(240);
  });

  it('breaks a layer into rows of equal length on a narrow page', () => {
    const columns = (heads: number): number => (
      layOutModel(groupByLayer(makeModel(6, heads).header.sides[0]), 34, 320,
        500).groups[0].columns);
    expect([9, 12, 16, 5].map(columns)).toEqual([3, 4, 4, 3]);
  });
});
