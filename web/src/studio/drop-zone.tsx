// An area to drop, paste or choose an image.

import { useEffect, useState } from 'preact/hooks';
import { formatBytes } from './format';

// Why a file cannot be sent; empty if it can.
export function imageProblem(file: Blob, maxBytes: number): string {
  if (file.type && !file.type.startsWith('image/')) return 'This is not an image; give a PNG or JPEG file.';
  if (file.size > maxBytes)
    return `The image has ${formatBytes(file.size)}; give at most ${formatBytes(maxBytes)}.`;
  return '';
}

export function usePastedImage(take: (file: Blob) => void): void {
  useEffect(() => {
    const paste = (event: ClipboardEvent): void => {
      const file = [...(event.clipboardData?.files ?? [])].find(({ type }) => type.startsWith('image/'));
      if (file) take(file);
    };
    document.addEventListener('paste', paste);
    return () => document.removeEventListener('paste', paste);
  });
}

export function DropZone({ image, take }: { image: Blob | null; take: (file: Blob) => void }) {
  const [over, setOver] = useState(false);
  return (
    <div
      class={over ? 'drop over' : 'drop'}
      onDragOver={(event) => {
        event.preventDefault();
        setOver(true);
      }}
      onDragLeave={() => setOver(false)}
      onDrop={(event) => {
        event.preventDefault();
        setOver(false);
        const file = event.dataTransfer?.files[0];
        if (file) take(file);
      }}
    >
      {image && <ImagePreview image={image} />}
      <div>
        <p>Drop an image here, paste one, or</p>
        <label class="button file">
          choose a file
          <input
            type="file"
            accept="image/*"
            class="quiet"
            onChange={(event) => {
              const file = event.currentTarget.files?.[0];
              if (file) take(file);
              event.currentTarget.value = '';
            }}
          />
        </label>
      </div>
    </div>
  );
}

function ImagePreview({ image }: { image: Blob }) {
  const [url, setUrl] = useState('');
  useEffect(() => {
    const created = URL.createObjectURL(image);
    setUrl(created);
    return () => URL.revokeObjectURL(created);
  }, [image]);
  return url ? <img class="picture" src={url} alt="The chosen image" /> : null;
}
