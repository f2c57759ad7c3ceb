// On paper the whole drawing, not the part that was scrolled to, and dark on white.

import { useEffect } from 'preact/hooks';
import type { Measure } from '../../shared/fonts';
import { paint } from '../paint';
import { theme } from '../../shared/theme';
import type { Drawing } from '../view';

const AREA = 24e6; // pixels

export function usePaper(
  box: { current: HTMLElement | null },
  drawing: () => Drawing | null,
  measure: Measure,
): void {
  useEffect(() => {
    let sheet: HTMLCanvasElement | null = null;
    const before = (): void => {
      const now = drawing();
      if (!now || !box.current) return;
      const { width, height } = now;
      sheet = document.createElement('canvas');
      sheet.className = 'paper';
      const ratio = Math.min(2, 16000 / height, Math.sqrt(AREA / (width * height)));
      paint(
        sheet,
        now.marks,
        { x: 0, y: 0, w: width, h: height },
        ratio,
        theme('light'),
        measure,
        false,
      );
      box.current.append(sheet);
    };
    const after = (): void => sheet?.remove();
    window.addEventListener('beforeprint', before);
    window.addEventListener('afterprint', after);
    return () => {
      window.removeEventListener('beforeprint', before);
      window.removeEventListener('afterprint', after);
    };
  }, []);
}
