// One download button per file format.

import { downloadFile, type MakeFile } from './download';

interface Props {
  name: string; // of the files, without extension
  what: string; // what is saved, for the tooltips
  files: [string, MakeFile][];
  look?: string; // class of the buttons
}

export function DownloadButtons({ name, what, files, look }: Props) {
  return (
    <>
      {files.map(([kind, make]) => (
        <button
          key={kind}
          type="button"
          class={look}
          title={`Save ${what} as ${kind}`}
          onClick={() => void downloadFile(make, `${name}.${kind.toLowerCase()}`)}
        >
          {kind}
        </button>
      ))}
    </>
  );
}
