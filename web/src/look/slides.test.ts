import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { DEFAULTS, parseAddress, type Choices } from './choices';
import {
  addSlide, formatPresentation, MAX_SLIDES, moveSlide, NO_SLIDES, parsePresentation, parseSlides,
  presentationScale, slideTitle,
} from './slides';
import { VIEWS } from './views/index';
import { ArrayBlocks, makeLayer, makeSequence, makeSide, openCapture, randomWeights,
} from '../../test-support/view-captures';

const slide: fc.Arbitrary<Choices> = fc.record({
  view: fc.constantFrom('heads', 'matrix', 'walkthrough'), layer: fc.nat(40),
  heads: fc.uniqueArray(fc.nat(30), { maxLength: 4 }).map((all) => all.sort((a, b) => a - b)),
  search: fc.string({ maxLength: 30 }), stage: fc.nat(8), temperature: fc.constantFrom(0.25, 1, 3.364),
}).map((some) => ({ ...DEFAULTS, ...some }));

describe('saved views', () => {
  it('come back from an address exactly, with the one that is presented', () => {
    fc.assert(fc.property(fc.array(slide, { maxLength: 8 }), fc.nat(9), (slides, n) => {
      const at = n < slides.length ? n : null;
      const text = formatPresentation({ slides, at });
      expect(parsePresentation(text)).toEqual({ slides, at });
      expect(parsePresentation(`view=matrix&${text}`).slides).toEqual(slides);
      expect(parseAddress(`view=matrix&${text}`, DEFAULTS)).toEqual({ ...DEFAULTS, view: 'matrix' });
    }));
  });

  it('are those of the page where the address has none', () => {
    const saved = parseSlides('view=matrix&layer=2');
    expect(parsePresentation('view=heads', saved)).toEqual({ slides: saved, at: null });
    expect(parsePresentation('slides=view%3Dflow', saved).slides[0].view).toBe('flow');
    expect(parsePresentation('', [])).toEqual(NO_SLIDES);
  });

  it('may be any text', () => {
    fc.assert(fc.property(fc.string(), fc.string(), (slides, present) => {
      const { slides: list, at } = parsePresentation(`slides=${slides}&present=${present}`);
      expect(list.length).toBeLessThanOrEqual(MAX_SLIDES);
      expect(at === null || at < list.length).toBe(true);
    }));
  });

  it('are bounded in number and length', () => {
    let slides: Choices[] = [];
    for (let i = 0; i < 100; i += 1) slides = addSlide(slides, { ...DEFAULTS, layer: i }) ?? slides;
    expect(slides.length).toBe(MAX_SLIDES);
    const long = { ...DEFAULTS, search: '漢'.repeat(200) };
    const few = [long, long, long].reduce<Choices[]>((all, each) => addSlide(all, each) ?? all, []);
    expect(few.length).toBeLessThan(3);
    expect(parsePresentation(formatPresentation({ slides: few, at: null })).slides).toEqual(few);
  });

  it('move by one place and stop at the ends', () => {
    const [a, b, c] = [1, 2, 3].map((layer) => ({ ...DEFAULTS, layer }));
    expect(moveSlide([a, b, c], 0, 1)).toEqual([b, a, c]);
    expect(moveSlide([a, b, c], 2, -1)).toEqual([a, c, b]);
    expect(moveSlide([a, b, c], 0, -1)).toEqual([a, b, c]);
    expect(moveSlide([a, b, c], 2, 1)).toEqual([a, b, c]);
  });

  it('are named after what they show', () => {
    const blocks = new ArrayBlocks();
    const layer = makeLayer(blocks, [2, 3, 3], randomWeights(2, 3, 3, 1));
    const capture = openCapture(blocks, [makeSide(blocks, [makeSequence('a', ['x', 'y', '<b>'])], [layer])]);
    const view = VIEWS.find(({ id }) => id === 'walkthrough') ?? VIEWS[0];
    const choices = { ...DEFAULTS, view: view.id, heads: [1], queries: [2], stage: 4 };
    expect(slideTitle(capture, view, choices)).toBe(
      'Walkthrough 5, Softmax: Layer 0, head 1, “<b>”');
  });

  it('are larger on a projector, and as usual on a phone', () => {
    expect(presentationScale(390, 844)).toBe(1);
    expect(presentationScale(1920, 1080)).toBeGreaterThan(1.8);
    expect(presentationScale(1440, 900)).toBeGreaterThan(1.3);
  });
});
