// Test images of a run's data, to click.

import { useEffect, useState } from 'preact/hooks';
import { plainText } from '../report/text-format';
import { request } from './api';
import type { ExampleImage } from './api-types';

interface Props {
  run: string;
  disabled: boolean;
  take: (image: Blob) => void;
}

export function ExampleImages({ run, disabled, take }: Props) {
  const [images, setImages] = useState<ExampleImage[]>([]);
  useEffect(() => {
    const controller = new AbortController();
    setImages([]);
    request('GET /api/see/examples', { query: { run }, signal: controller.signal }).then(
      (found) => setImages(found.images),
      () => undefined, // examples are optional
    );
    return () => controller.abort();
  }, [run]);
  if (!images.length) return null;
  return (
    <p class="chips example-images" role="group" aria-label="Test images to try">
      <span class="dim small">test images</span>
      {images.map(({ png, label }, i) => (
        <button key={i} type="button" class="plainly" disabled={disabled} onClick={() => take(pngFile(png))}>
          <img src={`data:image/png;base64,${png}`} alt={`Test image ${i + 1}, labeled ${plainText(label)}`} />
        </button>
      ))}
    </p>
  );
}

function pngFile(base64: string): Blob {
  const bytes = Uint8Array.from(atob(base64), (sign) => sign.charCodeAt(0));
  return new Blob([bytes], { type: 'image/png' });
}
