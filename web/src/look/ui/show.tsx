// From a capture, or from what went wrong with it, to something on the screen.

import { render } from 'preact';
import { useState } from 'preact/hooks';
import type { Opened } from '../capture';
import { CaptureError } from '../failure';
import { openFile } from '../sources';
import { App, type Place } from './app';

export function show(place: Place, open: () => Opened): void {
  let opened: Opened;
  try {
    opened = open();
  } catch (error) {
    fail(place, error);
    return;
  }
  render(<App opened={opened} place={place} />, place.root);
}

function fail(place: Place, error: unknown): void {
  if (!(error instanceof CaptureError)) console.error(error);
  const message = error instanceof Error ? error.message : String(error);
  render(<Failure message={message} />, place.root);
}

function Failure({ message }: { message: string }) {
  return (
    <div class="shell failure" role="alert">
      <h1>This capture cannot be shown</h1>
      <p>{message}</p>
    </div>
  );
}

// A page without a capture asks for one.
export function ask(place: Place): void {
  render(<Ask place={place} />, place.root);
}

function Ask({ place }: { place: Place }) {
  const [message, setMessage] = useState('');
  const take = async (file: File | undefined): Promise<void> => {
    if (!file) return;
    try {
      const opened = openFile(await file.arrayBuffer());
      render(null, place.root);
      render(<App opened={opened} place={place} />, place.root);
    } catch (error) {
      setMessage(`${file.name}: ${error instanceof Error ? error.message : String(error)}`);
    }
  };
  return (
    <div
      class="shell failure"
      onDragOver={(event) => event.preventDefault()}
      onDrop={(event) => {
        event.preventDefault();
        void take(event.dataTransfer?.files[0]);
      }}
    >
      <h1>Open a capture</h1>
      <p>Choose a file that attnlab saved, or drop it here. It stays on this computer.</p>
      <input
        type="file"
        aria-label="Capture file"
        onChange={(event) => void take(event.currentTarget.files?.[0])}
      />
      {message && (
        <p class="warn" role="alert">
          {message}
        </p>
      )}
    </div>
  );
}
