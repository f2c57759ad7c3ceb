// All views, in the order of their tabs. To add a view, write its file and add a line here.

import type { View } from '../view';
import { compare } from './compare';
import { cross } from './cross';
import { effect } from './effect';
import { flow } from './flow';
import { generation } from './generation';
import { heads } from './heads';
import { image } from './image';
import { mask } from './mask';
import { matrix } from './matrix';
import { model } from './model';
import { neurons } from './neurons';
import { walkthrough } from './walkthrough';

export const VIEWS: View[] = [
  heads,
  walkthrough,
  matrix,
  model,
  effect,
  neurons,
  compare,
  generation,
  cross,
  flow,
  image,
  mask,
];

export const findView = (id: string): View => VIEWS.find((view) => view.id === id) ?? VIEWS[0];
