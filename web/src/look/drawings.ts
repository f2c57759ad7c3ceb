// The last drawings: whoever goes to and fro, or was expected, gets what was drawn already.

import type { Opened } from './capture';
import type { Drawing, Frame, View } from './view';

const KEPT = 24;

const known = new WeakMap<Opened, Map<string, Drawing>>();

export function drawingOf(view: View, frame: Frame): Drawing {
  let kept = known.get(frame.opened);
  if (!kept) known.set(frame.opened, (kept = new Map()));
  const key = `${view.id} ${frame.width} ${frame.height} ${JSON.stringify(frame.choices)}`;
  const found = kept.get(key) ?? view.draw(frame);
  kept.delete(key); // the newest stands last
  kept.set(key, found);
  for (const old of kept.keys()) {
    if (kept.size <= KEPT) break;
    kept.delete(old);
  }
  return found;
}
