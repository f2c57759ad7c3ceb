// Where an image is dropped, pasted or chosen.

import { useEffect, useState } from 'preact/hooks';
import { bytes } from './format';

// In words; empty where the file can be sent.
export function problemOf(file: Blob, most: number): string {
  if (file.type && !file.type.startsWith('image/')) return 'That is no image; drop a PNG or JPEG file.';
  if (file.size > most)
    return `The image has ${bytes(file.size)}; this studio takes ${bytes(most)} at most.`;
  return '';
}

export function usePasted(take: (file: Blob) => void): void {
  useEffect(() => {
    const paste = (event: ClipboardEvent): void => {
      const file = [...(event.clipboardData?.files ?? [])].find((each) => each.type.startsWith('image/'));
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
      {image && <Picture image={image} />}
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

function Picture({ image }: { image: Blob }) {
  const [url, setUrl] = useState('');
  useEffect(() => {
    const made = URL.createObjectURL(image);
    setUrl(made);
    return () => URL.revokeObjectURL(made);
  }, [image]);
  return url ? <img class="picture" src={url} alt="The chosen image" /> : null;
}
