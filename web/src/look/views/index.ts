// All views, in the order of their tabs. To add a view, write its file and add a line here.

import type { View } from '../view';
import { compare } from './compare';
import { cross } from './cross';
import { flow } from './flow';
import { generation } from './generation';
import { heads } from './heads';
import { image } from './image';
import { mask } from './mask';
import { matrix } from './matrix';
import { model } from './model';
import { neurons } from './neurons';

export const VIEWS: View[] = [
  heads,
  matrix,
  model,
  neurons,
  compare,
  generation,
  cross,
  flow,
  image,
  mask,
];
