import { describe, expect, it } from 'vitest';
import { layerName } from './names';
import { ArrayBlocks, makeHeader, makeLayer, makeSequence } from '../../test-support/file-captures';

function names(modules: string[]): string[] {
  const blocks = new ArrayBlocks();
  const layers = modules.map((name) => makeLayer(blocks, [1], [1, 1, 1], { name }));
  const [side] = makeHeader(blocks, [makeSequence(['a'])], layers).sides;
  return modules.map((_, index) => layerName(side, index));
}

describe('layerName', () => {
  it('keeps the numbers of the model, also where layers between were not captured', () => {
    expect(names(['model.layers.3.attn', 'model.layers.7.attn'])).toEqual(['3', '7']);
    expect(names(['model.layers.5.attn'])).toEqual(['5']);
  });

  it('tells two layers of one number apart', () => {
    expect(names(['m.0.mamba', 'm.0.self_attn', 'm.1.mamba', 'm.1.self_attn'])).toEqual([
      '0 mamba', '0 self_attn', '1 mamba', '1 self_attn']);
  });

  it('counts where no single part of the names does', () => {
    expect(names(['stages.0.blocks.0', 'stages.0.blocks.1', 'stages.1.blocks.0'])).toEqual([
      '0', '1', '2']);
    expect(names(['a', 'b'])).toEqual(['0', '1']);
    expect(names(['layers.0.9999999.attn', 'layers.0.attn'])).toEqual(['0 attn', '0 attn'].map(
      (_, index) => String(index)));
  });
});
