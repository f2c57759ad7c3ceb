// Renders a capture into its element, or the error, or a file picker.

import { render } from 'preact';
import { useState } from 'preact/hooks';
import type { Capture } from '../capture';
import { CaptureError } from '../capture-error';
import { openFile } from '../open-capture';
import { App, type Host } from './app';

export function mountCapture(host: Host, open: () => Capture): void {
  let capture: Capture;
  try {
    capture = open();
  } catch (error) {
    mountFailure(host, error);
    return;
  }
  render(<App capture={capture} host={host} />, host.root);
}

function mountFailure(host: Host, error: unknown): void {
  if (!(error instanceof CaptureError)) console.error(error);
  const message = error instanceof Error ? error.message : String(error);
  render(<Failure message={message} />, host.root);
}

function Failure({ message }: { message: string }) {
  return (
    <div class="shell failure" role="alert">
      <h1>This capture cannot be shown</h1>
      <p>{message}</p>
    </div>
  );
}

// For a page without a capture: lets the user open a file.
export function mountFilePicker(host: Host): void {
  render(<FilePicker host={host} />, host.root);
}

function FilePicker({ host }: { host: Host }) {
  const [message, setMessage] = useState('');
  const openFirst = async (file: File | undefined): Promise<void> => {
    if (!file) return;
    try {
      const capture = openFile(await file.arrayBuffer());
      render(null, host.root);
      render(<App capture={capture} host={host} />, host.root);
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
        void openFirst(event.dataTransfer?.files[0]);
      }}
    >
      <h1>Open a capture</h1>
      <p>
        Choose a capture file that attnlab saved, or drop it here. The file stays on this computer.
      </p>
      <input
        type="file"
        aria-label="Capture file"
        onChange={(event) => void openFirst(event.currentTarget.files?.[0])}
      />
      {message && (
        <p class="warn" role="alert">
          {message}
        </p>
      )}
    </div>
  );
}
