// What a person has changed about a figure; it is part of the address.

export interface Shown {
  xLog: boolean | null; // null: as the plot has it
  yLog: boolean | null;
  hidden: number[]; // series or bars that are switched off
  table: boolean;
}

export const AS_GIVEN: Shown = { xLog: null, yLog: null, hidden: [], table: false };

const MANY = 64;

// With one series or bar switched on or off.
export function toggled(shown: Shown, index: number): Shown {
  const off = shown.hidden.includes(index);
  const hidden = off ? shown.hidden.filter((each) => each !== index) : [...shown.hidden, index];
  return { ...shown, hidden: hidden.sort((one, other) => one - other) };
}

// "xl.yn.h0-3.t"
export function printShown({ xLog, yLog, hidden, table }: Shown): string {
  const parts = [
    xLog === null ? '' : xLog ? 'xl' : 'xn',
    yLog === null ? '' : yLog ? 'yl' : 'yn',
    hidden.length ? `h${hidden.join('-')}` : '',
    table ? 't' : '',
  ];
  return parts.filter(Boolean).join('.');
}

export function parseShown(text: string): Shown {
  const shown: Shown = { ...AS_GIVEN };
  for (const part of text.split('.')) {
    if (/^x[ln]$/.test(part)) shown.xLog = part === 'xl';
    else if (/^y[ln]$/.test(part)) shown.yLog = part === 'yl';
    else if (/^h\d{1,3}(-\d{1,3})*$/.test(part))
      shown.hidden = [...new Set(part.slice(1).split('-').map(Number))].slice(0, MANY);
    else if (part === 't') shown.table = true;
  }
  return shown;
}
