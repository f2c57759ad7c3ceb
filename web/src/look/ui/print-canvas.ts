// Printing: paints the whole drawing, not only the visible part, in light colors.

import { useEffect } from 'preact/hooks';
import type { Measure } from '../../shared/text-width';
import { paint } from '../paint-canvas';
import { theme } from '../../shared/theme';
import type { Drawing } from '../view';

const MAX_AREA_PIXELS = 24e6; // pixels

export function usePrintCanvas(
  box: { current: HTMLElement | null },
  drawing: () => Drawing | null,
  measure: Measure,
): void {
  useEffect(() => {
    let canvas: HTMLCanvasElement | null = null;
    const addCanvas = (): void => {
      const current = drawing();
      if (!current || !box.current) return;
      const { width, height } = current;
      canvas = document.createElement('canvas');
      canvas.className = 'print-canvas';
      const ratio = Math.min(2, 16000 / height, Math.sqrt(MAX_AREA_PIXELS / (width * height)));
      paint(
        canvas,
        current.marks,
        { x: 0, y: 0, w: width, h: height },
        ratio,
        theme('light'),
        measure,
        false,
      );
      box.current.append(canvas);
    };
    const removeCanvas = (): void => canvas?.remove();
    window.addEventListener('beforeprint', addCanvas);
    window.addEventListener('afterprint', removeCanvas);
    return () => {
      window.removeEventListener('beforeprint', addCanvas);
      window.removeEventListener('afterprint', removeCanvas);
    };
  }, []);
}
