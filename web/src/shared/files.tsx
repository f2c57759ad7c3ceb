// A button for each kind of file.

import { save, type Make } from './save';

interface Props {
  name: string; // of the files, without what comes behind the point
  what: string; // "what is shown"
  files: [string, Make][];
  look?: string; // class of the buttons
}

export function Files({ name, what, files, look }: Props) {
  return (
    <>
      {files.map(([kind, make]) => (
        <button
          key={kind}
          type="button"
          class={look}
          title={`Save ${what} as ${kind}`}
          onClick={() => void save(make, `${name}.${kind.toLowerCase()}`)}
        >
          {kind}
        </button>
      ))}
    </>
  );
}
