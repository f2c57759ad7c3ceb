// What the capture's check of itself says: weights times values against what the layers gave.

import type { LayerInfo } from './format';
import { number } from '../shared/text';

const LIMIT = 1e-3; // a larger difference is in doubt, where nobody knows what rounding explains

export interface Check {
  state: 'good' | 'warn' | '';
  said: string;
  title: string;
}

type Checked = Pick<LayerInfo, 'difference' | 'excess'>;

const doubtful = ({ difference, excess }: Checked): boolean =>
  excess === null ? (difference ?? 0) > LIMIT : excess > 1;

export function checkOf(layers: Checked[]): Check {
  const checked = layers.filter((each) => each.difference !== null);
  if (!checked.length) {
    return {
      state: '',
      said: 'not checked',
      title: 'What the layers gave could not be compared with weights times values',
    };
  }
  const wrong = checked.filter(doubtful);
  const among = wrong.length ? wrong : checked;
  const most = number(Math.max(...among.map((each) => each.difference ?? 0)), 3);
  const some =
    checked.length < layers.length ? `, ${checked.length} of ${layers.length} layers` : '';
  return wrong.length
    ? {
        state: 'warn',
        said: `⚠ differs by ${most}, more than rounding${some}`,
        title:
          'Weights times values differ from what the layers really gave by more than rounding ' +
          'explains: do not trust them',
      }
    : {
        state: 'good',
        said: `✓ checked, differs by ${most}: rounding${some}`,
        title:
          'The largest difference between weights times values and what the layers really gave, ' +
          'which rounding explains',
      };
}
