// Caches the last drawings, so that going back, or to a prefetched view, costs nothing.

import type { Capture } from './capture';
import type { Drawing, Frame, View } from './view';

const MAX_DRAWINGS = 24;

const caches = new WeakMap<Capture, Map<string, Drawing>>();

export function cachedDrawing(view: View, frame: Frame): Drawing {
  let drawings = caches.get(frame.capture);
  if (!drawings) caches.set(frame.capture, (drawings = new Map()));
  const key = `${view.id} ${frame.width} ${frame.height} ${JSON.stringify(frame.choices)}`;
  const drawing = drawings.get(key) ?? view.draw(frame);
  drawings.delete(key); // the most recent entry comes last
  drawings.set(key, drawing);
  for (const oldest of drawings.keys()) {
    if (drawings.size <= MAX_DRAWINGS) break;
    drawings.delete(oldest);
  }
  return drawing;
}
