// Downloads of files.

export type MakeFile = () => Promise<Blob | null> | Blob;

export async function downloadFile(make: MakeFile, name: string): Promise<void> {
  const blob = await make();
  if (!blob) return;
  const link = document.createElement('a');
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

// A file name of letters, digits and hyphens.
export function toFileName(text: string): string {
  return text
    .normalize('NFKD')
    .replace(/[^A-Za-z0-9]+/g, '-')
    .replace(/^-+|-+$/g, '')
    .slice(0, 40)
    .toLowerCase();
}

export function svgFile(text: string): Blob {
  return new Blob([text], { type: 'image/svg+xml' });
}

export function csvFile(text: string): Blob {
  return new Blob([text], { type: 'text/csv;charset=utf-8' });
}
