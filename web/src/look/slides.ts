// The views that a lecturer saved, in order. The address holds them, and a page saved with them.

import { encodeText, parseFields } from '../shared/address-fields';
import { formatFragment, parseFragment, type Choices } from './choices';
import type { Capture } from './capture';
import { quoted } from '../shared/readable-text';
import { headName, layerTitle } from './names';
import { STAGES } from './walkthrough/stages';
import type { View } from './view';

export const MAX_SLIDES = 40;
const MAX_LENGTH = 6000; // characters in an address, which browsers and mail programs keep whole
export const SLIDES_META = 'attnlab-slides'; // name of the element of a page saved with its views

export interface Presentation {
  slides: Choices[];
  at: number | null; // number of the view that is presented; null: no presentation
}

export const NO_SLIDES: Presentation = { slides: [], at: null };

// Each view as in an address, joined by line breaks.
export function formatSlides(slides: Choices[]): string {
  return slides.map((each) => formatFragment(each) || 'view=heads').join('\n');
}

export function parseSlides(text: string): Choices[] {
  return text
    .split('\n')
    .filter(Boolean)
    .slice(0, MAX_SLIDES)
    .map((each) => parseFragment(each));
}

// The part of the address after the choices.
export function formatPresentation({ slides, at }: Presentation): string {
  return [
    slides.length ? `slides=${encodeText(formatSlides(slides))}` : '',
    at === null ? '' : `present=${at + 1}`,
  ]
    .filter(Boolean)
    .join('&');
}

// Without saved views in the address, those of the page.
export function parsePresentation(fragment: string, saved: Choices[] = []): Presentation {
  const fields = parseFields(fragment);
  const slides = fields.has('slides') ? parseSlides(fields.get('slides') ?? '') : saved;
  const number = /^\d{1,3}$/.test(fields.get('present') ?? '') ? Number(fields.get('present')) : 0;
  return { slides, at: number >= 1 && number <= slides.length ? number - 1 : null };
}

// Null if the list is full: too many views, or too long for an address.
export function addSlide(slides: Choices[], choices: Choices): Choices[] | null {
  const longer = [...slides, choices];
  const fits = encodeText(formatSlides(longer)).length <= MAX_LENGTH;
  return longer.length <= MAX_SLIDES && fits ? longer : null;
}

export function moveSlide(slides: Choices[], from: number, by: number): Choices[] {
  const to = from + by;
  if (to < 0 || to >= slides.length) return slides;
  const moved = [...slides];
  [moved[from], moved[to]] = [moved[to], moved[from]];
  return moved;
}

// "Walkthrough, step 5: Softmax; layer 3, head 1, “it”"
export function slideTitle(capture: Capture, view: View, choices: Choices): string {
  const side = capture.header.sides[choices.side];
  const layer = side?.layers[choices.layer];
  const stage = view.id === 'walkthrough' ? STAGES[choices.stage] : undefined;
  const heads = choices.heads.map((head) => headName(layer, head)).join(', ');
  const token = layer && side.sequences[layer.queries].tokens[choices.queries[0]];
  const places = [
    layer ? layerTitle(side, choices.layer) : '',
    heads && (choices.heads.length > 1 ? `heads ${heads}` : `head ${heads}`),
    token ? quoted(token.text, 12) : '',
  ].filter(Boolean);
  return `${view.title}${stage ? ` ${choices.stage + 1}, ${stage.short}` : ''}: ${places.join(', ')}`;
}

// How much larger a projector's picture is than a page, by the size of the window.
export function presentationScale(width: number, height: number): number {
  return width < 700 ? 1 : Math.max(1.15, Math.min(2.6, width / 1000, height / 560));
}
