// The options of a figure that a reader can change; the address contains them.

export interface FigureOptions {
  xLog: boolean | null; // null keeps the plot's own scale
  yLog: boolean | null;
  hidden: number[]; // indices of hidden series or bars
  table: boolean;
}

export const DEFAULT_FIGURE_OPTIONS: FigureOptions = { xLog: null, yLog: null, hidden: [], table: false };

const MAX_HIDDEN = 64;

// Shows or hides one series or bar.
export function toggleHidden(options: FigureOptions, index: number): FigureOptions {
  const isHidden = options.hidden.includes(index);
  const hidden = isHidden ? options.hidden.filter((each) => each !== index) : [...options.hidden, index];
  return { ...options, hidden: hidden.sort((one, other) => one - other) };
}

// "xl.yn.h0-3.t"
export function printFigureOptions({ xLog, yLog, hidden, table }: FigureOptions): string {
  const parts = [
    xLog === null ? '' : xLog ? 'xl' : 'xn',
    yLog === null ? '' : yLog ? 'yl' : 'yn',
    hidden.length ? `h${hidden.join('-')}` : '',
    table ? 't' : '',
  ];
  return parts.filter(Boolean).join('.');
}

export function parseFigureOptions(text: string): FigureOptions {
  const options: FigureOptions = { ...DEFAULT_FIGURE_OPTIONS };
  for (const part of text.split('.')) {
    if (/^x[ln]$/.test(part)) options.xLog = part === 'xl';
    else if (/^y[ln]$/.test(part)) options.yLog = part === 'yl';
    else if (/^h\d{1,3}(-\d{1,3})*$/.test(part))
      options.hidden = [...new Set(part.slice(1).split('-').map(Number))].slice(0, MAX_HIDDEN);
    else if (part === 't') options.table = true;
  }
  return options;
}
