// Makes texts from files safe to show. The results are plain text, never HTML.

import { visible } from '../shared/readable-text';

const HIDDEN = /[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Zl}\p{Zp}\p{Noncharacter_Code_Point}\u2065\ufff0-\ufff8\u{e0000}-\u{e0fff}]/gu;

// Replaces characters that are invisible or change the direction of text by visible signs.
export function plainText(text: string): string {
  return text.replace(HIDDEN, (each) =>
    /[\n\t\r]/.test(each) ? ' ' : /[\u200c\u200d]/.test(each) ? each : visible(each),
  );
}
