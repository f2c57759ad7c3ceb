// A table for a page and for CSV.

export interface Table {
  title: string;
  header: string[];
  rows: (string | number)[][];
}
