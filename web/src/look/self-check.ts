// The result of the capture's self-check, which compares weights times values with layer outputs.

import type { LayerInfo } from './capture-format';
import { number } from '../shared/readable-text';

const MAX_DIFFERENCE = 1e-3; // largest accepted difference for files that do not store a rounding bound

export interface CheckSummary {
  state: 'good' | 'warn' | '';
  text: string;
  title: string;
}

type CheckedLayer = Pick<LayerInfo, 'difference' | 'excess'>;

const exceedsLimit = ({ difference, excess }: CheckedLayer): boolean =>
  excess === null ? (difference ?? 0) > MAX_DIFFERENCE : excess > 1;

export function summarizeCheck(layers: CheckedLayer[]): CheckSummary {
  const checked = layers.filter((each) => each.difference !== null);
  if (!checked.length) {
    return {
      state: '',
      text: 'not checked',
      title: 'Weights times values could not be compared with the outputs of the layers.',
    };
  }
  const suspicious = checked.filter(exceedsLimit);
  const relevant = suspicious.length ? suspicious : checked;
  const largest = number(Math.max(...relevant.map((each) => each.difference ?? 0)), 3);
  const coverage =
    checked.length < layers.length ? `, ${checked.length} of ${layers.length} layers` : '';
  return suspicious.length
    ? {
        state: 'warn',
        text: `⚠ differs by ${largest}, more than rounding${coverage}`,
        title:
          'Weights times values differ from the outputs of the layers by more than rounding ' +
          'explains: do not trust these weights.',
      }
    : {
        state: 'good',
        text: `✓ checked, differs by ${largest}: rounding${coverage}`,
        title:
          'The largest difference between weights times values and the outputs of the layers; ' +
          'rounding explains it.',
      };
}
